"""An app's directory and manifest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etbundle import app as app_module
from etbundle.app import App, Program, add_libraries, add_programs, unique_names


class Files:
    """Files of an example app."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, name: str, contents: str = "") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(contents or name)
        return path

    def program(self, label: str, *data: str) -> Program:
        name = label.rsplit(":", 1)[1]
        folder = label.strip("/").replace(":", "/")
        manifest = {"format": 1, "data": [{"label": d, "file": "f.ptd"} for d in data]}
        return Program(
            label,
            name,
            self.file(f"{folder}/{name}.pte"),
            self.file(f"{folder}/{name}.manifest.json", json.dumps(manifest)),
        )


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "in")


def empty(fit: dict | None = None) -> App:
    return App({"label": "//a:app"}, fit or {"programs": {}, "libraries": []})


def test_a_shared_file_once(files: Files) -> None:
    app = empty()
    foundation = files.file("foundation.ptd")
    programs = [files.program("//m:one", "//m:f"), files.program("//m:two", "//m:f")]
    described = add_programs(app, programs, [("//m:f", foundation), ("//m:g", files.file("g.ptd"))])
    assert [p for p in app.files if p.startswith("data/")] == ["data/foundation.ptd"]
    assert [d["data"] for d in described] == [{"//m:f": "data/foundation.ptd"}] * 2


def test_programs_of_one_name(files: Files) -> None:
    app = empty()
    programs = [files.program("//a/b:net"), files.program("//c:net"), files.program("//c:other")]
    described = add_programs(app, programs, [])
    assert [d["name"] for d in described] == ["a_b_net", "c_net", "other"]
    assert app.files["programs/c_net.pte"] == programs[1].file


def test_names_of_other_repositories() -> None:
    expected = [("@@m~1.0//:net", "net"), ("//:net", "net")]
    assert unique_names(expected) == ["m_1.0_net", "root_net"]


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
    app = empty({"programs": {}, "libraries": [{"label": "//r:core"}, {"label": "//r:mlx"}]})
    paths = add_libraries(
        app,
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
    fit = {
        "programs": {
            "//m:net": {
                "forward": {"operators": ["aten::add.out"], "backends": ["XnnpackBackend"]},
                "n": {"operators": [], "backends": []},
            }
        },
        "libraries": [{"label": "//r:core"}],
    }
    out.mkdir()
    code = app_module.main(
        ["--label", "//a:app", "--name", "app", "--platform", "linux_arm64"]
        + ["--exporter_version", "1.5.1", "--runtime_version", "1.5.1"]
        + ["--fit", str(files.file("fit.json", json.dumps(fit)))]
        + ["--binary", str(files.file("app.bin/runner"))]
        + ["--library", "//r:core", "lib", str(files.file("libcore.so"))]
        + ["--program", program.label, program.name, str(program.file), str(program.manifest)]
        + ["--data", "//m:f", str(files.file("f.ptd"))]
        + ["--asset", f"words/de_x.txt={files.file('de=x.txt')}"]
        + ["--license", f"executorch/LICENSE={files.file('LICENSE')}"]
        + ["--directory", str(out / "app"), "--manifest", str(out / "app.json")]
    )
    assert code == 0
    return json.loads((out / "app" / "manifest.json").read_text())


def test_the_whole_app(files: Files, tmp_path: Path) -> None:
    manifest = run(files, tmp_path / "one")
    app = tmp_path / "one" / "app"
    assert manifest["programs"] == [
        {
            "name": "net",
            "label": "//m:net",
            "file": "programs/net.pte",
            "manifest": "programs/net.manifest.json",
            "data": {"//m:f": "data/f.ptd"},
            "methods": ["forward", "n"],
            "backends": ["XnnpackBackend"],
            "operators": ["aten::add.out"],
        }
    ]
    assert manifest["executorch"] == {"exporter": "1.5.1", "runtime": "1.5.1"}
    assert manifest["libraries"] == ["lib/libcore.so"]
    assert manifest["assets"] == ["assets/words/de_x.txt"]
    there = {p.relative_to(app).as_posix() for p in app.rglob("*") if p.is_file()}
    assert there == {*manifest["files"], "manifest.json"}
    for path, entry in manifest["files"].items():
        data = (app / path).read_bytes()
        assert entry == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    assert (app / "runner").stat().st_mode & 0o777 == 0o755
    assert (app / "programs/net.pte").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "one" / "app.json").read_bytes() == (app / "manifest.json").read_bytes()


def test_the_same_bytes_twice(files: Files, tmp_path: Path) -> None:
    run(files, tmp_path / "one")
    run(files, tmp_path / "two")
    assert (tmp_path / "one/app.json").read_bytes() == (tmp_path / "two/app.json").read_bytes()
