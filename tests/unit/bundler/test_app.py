"""An app's directory and manifest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etbundle import app as app_module
from etbundle.app import App, add_libraries, add_programs
from etlink import manifest
from etlink.manifest import File, Manifest, Method, Program


class Files:
    """Files of an example app."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, name: str, contents: str = "") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(contents or name)
        return path

    def program(self, label: str, *data: str) -> tuple[Path, Path]:
        """A .pte and its manifest; data files have five bytes."""
        name = label.rsplit(":", 1)[1]
        file = self.file(f"{label.strip('/').replace(':', '/')}/{name}.pte")
        names = {d: f"{number}.ptd" for number, d in enumerate(data)}
        program = Program(
            label=label,
            file=file.name,
            data=tuple(names.values()),
            methods={"forward": Method(backends=("XnnpackBackend",))},
        )
        files = {file.name: File(size=file.stat().st_size, label=label)}
        files |= {path: File(size=5, label=d) for d, path in names.items()}
        path = manifest.beside(file)
        manifest.write(path, Manifest(label=label, files=files, programs={name: program}))
        return file, path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "in")


def empty() -> App:
    return App("//a:app")


def test_a_shared_file_once(files: Files) -> None:
    app = empty()
    foundation = files.file("foundation.ptd")
    programs = [files.program("//m:one", "//m:f"), files.program("//m:two", "//m:f")]
    union = add_programs(app, programs, [("//m:f", foundation), ("//m:g", files.file("g.ptd"))])
    assert [p for p in app.files if p.startswith("data/")] == ["data/foundation.ptd"]
    assert sorted(union.files) == ["data/foundation.ptd", "programs/one.pte", "programs/two.pte"]
    assert [p.data for p in union.programs.values()] == [("data/foundation.ptd",)] * 2


def test_programs_of_one_name(files: Files) -> None:
    app = empty()
    programs = [files.program("//a/b:net"), files.program("//c:net"), files.program("//c:other")]
    union = add_programs(app, programs, [])
    assert list(union.programs) == ["a_b_net", "c_net", "other"]
    assert app.files["programs/c_net.pte"] == programs[1][0]


def test_data_that_is_missing(files: Files) -> None:
    with pytest.raises(BuildError, match="//m:one: data file of //m:f not found among"):
        add_programs(empty(), [files.program("//m:one", "//m:f")], [])


def test_two_assets_of_one_place(files: Files) -> None:
    app = empty()
    app.add("assets/a.txt", files.file("one/a.txt"))
    app.add("assets/a.txt", files.file("one/a.txt"))
    with pytest.raises(BuildError, match=r'two files would be "assets/a.txt" in the app'):
        app.add("assets/a.txt", files.file("two/a.txt"))


def test_only_libraries_that_are_needed(files: Files) -> None:
    app = empty()
    paths = add_libraries(
        app,
        {"libraries": [{"label": "//r:core"}, {"label": "//r:mlx"}]},
        [
            ["//r:core", "Frameworks/C.framework", str(files.file("C.framework/C"))]
            + [str(files.file("C.framework/sub/Info.plist"))],
            ["//r:mlx", "lib", str(files.file("lib/libmlx.dylib")), str(files.file("lib/mlx.lib"))],
            ["//r:coreml", "lib", str(files.file("lib/libcoreml.dylib"))],
        ],
    )
    assert paths == ["Frameworks/C.framework/C", "lib/libmlx.dylib"]
    assert sorted(set(app.files) - set(paths)) == [
        "Frameworks/C.framework/sub/Info.plist",
        "lib/mlx.lib",
    ]


def run(files: Files, out: Path) -> dict:
    program = files.program("//m:net", "//m:f")
    fit = {"libraries": [{"label": "//r:core"}]}
    out.mkdir()
    code = app_module.main(
        ["--label", "//a:app", "--platform", "linux_arm64"]
        + ["--exporter_version", "1.5.1", "--runtime_version", "1.5.1"]
        + ["--fit", str(files.file("fit.json", json.dumps(fit)))]
        + ["--binary", str(files.file("app.bin/runner"))]
        + ["--library", "//r:core", "lib", str(files.file("libcore.so"))]
        + ["--program", *map(str, program)]
        + ["--data", "//m:f", str(files.file("f.ptd"))]
        + ["--asset", f"words/de_x.txt={files.file('de=x.txt')}"]
        + ["--license", f"executorch/LICENSE={files.file('LICENSE')}"]
        + ["--directory", str(out / "app"), "--manifest", str(out / "app.json")]
    )
    assert code == 0
    return json.loads((out / "app" / "manifest.json").read_text())


def test_the_whole_app(files: Files, tmp_path: Path) -> None:
    made = run(files, tmp_path / "one")
    app = tmp_path / "one" / "app"
    assert made["programs"] == {
        "net": {
            "label": "//m:net",
            "file": "programs/net.pte",
            "data": ["data/f.ptd"],
            "methods": {"forward": {"backends": ["XnnpackBackend"]}},
        }
    }
    assert made["executorch"] == {"exporter": "1.5.1", "runtime": "1.5.1"}
    assert made["platforms"] == ["linux_arm64"]
    assert (made["binary"], made["libraries"]) == ("runner", ["lib/libcore.so"])
    assert "assets/words/de_x.txt" in made["files"]
    there = {p.relative_to(app).as_posix() for p in app.rglob("*") if p.is_file()}
    assert there == {*made["files"], "manifest.json"}
    for path, entry in made["files"].items():
        data = (app / path).read_bytes()
        assert entry["sha256"] == hashlib.sha256(data).hexdigest()
        assert entry["size"] == len(data)
    assert (app / "runner").stat().st_mode & 0o777 == 0o755
    assert (app / "programs/net.pte").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "one" / "app.json").read_bytes() == (app / "manifest.json").read_bytes()


def test_the_same_bytes_twice(files: Files, tmp_path: Path) -> None:
    run(files, tmp_path / "one")
    run(files, tmp_path / "two")
    assert (tmp_path / "one/app.json").read_bytes() == (tmp_path / "two/app.json").read_bytes()


def test_files_of_another_app(files: Files, tmp_path: Path) -> None:
    """Without a directory, the manifest alone."""
    arguments = ["--label", "//a:parts", "--exporter_version", "1.5.1"]
    arguments += ["--program", *map(str, files.program("//m:net"))]
    # Packed even if the program needs none of its weights.
    arguments += ["--data", "//m:f", str(files.file("f.ptd"))]
    assert app_module.main([*arguments, "--manifest", str(tmp_path / "m.json")]) == 0
    made = manifest.read(tmp_path / "m.json")
    assert sorted(made.files) == ["data/f.ptd", "programs/net.pte"]
    assert (made.executorch, made.binary) == ({"exporter": "1.5.1"}, "")


def test_a_program_of_another_build(files: Files, tmp_path: Path) -> None:
    program = files.program("//m:net")
    program[0].write_text("of another build")
    app = empty()
    known = add_programs(app, [program], [])
    with pytest.raises(BuildError, match='//a:app: two files would be "programs/net.pte"'):
        app_module.describe(app, known, app.files)
