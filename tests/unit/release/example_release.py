"""An example release: apps as EtApp writes them, and the description that analysis writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbundle import app_archive
from etbundle.app import MANIFEST, App, add_libraries, add_programs, describe, write
from etbundle.archives import write_zip
from etbundle.entries import Entry
from etbundle.release import release
from etlink import manifest
from etlink.container import Piece, sha256_of
from etlink.manifest import File, Manifest, Method, Program

RECIPE = {
    "label": "//backends/xnnpack:fp32",
    "builder": "recipes:fp32",
    "options": {"group_size": "32"},
    "base": None,
    "data": [],
}
ORIGINS = f"hub_model\tpkg:huggingface/org/Model-1B@{'0' * 40}\tLicenseRef-llama3.2 AND MIT\n"
METADATA = {
    "torch": "Name: torch\nVersion: 2.13.0+cpu\nLicense-Expression: BSD-3-Clause AND MIT\n",
    "Jinja2": "Name: Jinja2\nVersion: 3.1.6\n"
    "Classifier: License :: OSI Approved :: BSD License\nClassifier: Topic :: Text\n",
}


def described(path: Path, label: str) -> File:
    """Describes a file as a program's manifest does."""
    piece = Piece.of_file(path)
    return File(size=piece.size, sha256=sha256_of(piece), label=label)


class Release:
    """Files of a release below a folder.

    Attributes:
        folder: where the release is written.
        arguments: what analysis would say, by flag; a test may change it before `make`.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self.folder = scratch / "release"
        self.folder.mkdir(parents=True)
        metadata = [
            str(self.file(f"{name}.dist-info/METADATA", "Metadata-Version: 2.4\n" + text))
            for name, text in METADATA.items()
        ]
        self.arguments: dict[str, list[list[str]]] = {
            "label": [["//x:release"]],
            "executorch": [["1.5.1"]],
            "metadata": [[path] for path in metadata],
        }

    def say(self, flag: str, *values: object) -> None:
        """Adds what analysis says, once."""
        words = [str(value) for value in values]
        if words not in self.arguments.setdefault(flag, []):
            self.arguments[flag].append(words)

    def file(self, name: str, text: str = "") -> Path:
        """Writes a file outside of the release."""
        path = self._scratch / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text or name)
        return path

    def program(self, name: str, *data: str, weights: Sequence[str] = ()) -> tuple[Path, Path]:
        """A .pte and its manifest, and what analysis says of it and of its model."""
        label, model = f"//m:{name}", f"//m:{name}_model"
        self.say("program", label, model, RECIPE["label"], json.dumps(RECIPE))
        self.say("model", model, "m:build")
        for one in weights:
            repository = "hub_model" if one.endswith(".safetensors") else ""
            self.say("weights", model, f"//m:{one}", self.file(f"weights/{one}"), repository)
        file = self.file(f"{name}.pte")
        files = {file.name: described(file, label)}
        for one in data:
            files[f"{one}.ptd"] = described(self.file(f"{one}.ptd"), f"//m:{one}")
        method = Method(backends=("XnnpackBackend",), operators=("aten::add.out",))
        program = Program(
            label=label,
            file=file.name,
            data=tuple(f"{one}.ptd" for one in data),
            methods={"forward": method},
        )
        path = manifest.beside(file)
        manifest.write(path, Manifest(label=label, files=files, programs={name: program}))
        return file, path

    def app(
        self,
        name: str,
        platform: str,
        programs: Sequence[tuple[Path, Path]],
        data: Sequence[str] = (),
        file: str = "",
        purl: str = "pkg:pypi/executorch@1.5.1",
    ) -> Path:
        """An app, its archive if `file` names one, and what analysis says of it; its directory."""
        library = self.file(f"{platform}/libexecutorch.so")
        label = f"//x:{name}"
        app = App(label)
        app.executables.add(app.add("runner", self.file(f"{platform}/{name}/runner")))
        fit = {"libraries": [{"label": "//rt:core"}]}
        libraries = add_libraries(app, fit, [("//rt:core", "lib", str(library))])
        files = [(f"//m:{one}", self.file(f"{one}.ptd")) for one in data]
        known = add_programs(app, programs, files)
        app.add("assets/words.txt", self.file("words.txt"))
        app.add("licenses/LICENSE", self.file("LICENSE"))
        directory = self._scratch / "apps" / name
        copies = write(app, directory)
        more = {"binary": "runner", "libraries": tuple(libraries), "platforms": (platform,)}
        manifest.write(directory / MANIFEST, describe(app, known, copies, **more))
        if file:
            archive = self.folder / file
            arguments = ["--app", directory, "--prefix", name, "--output", archive]
            assert app_archive.main([str(a) for a in arguments]) == 0
            self.say("file", f"{file}={archive}")
        path = directory / MANIFEST
        self.say("app", label, name, platform, file, path, f"//rt:{platform}", "1.5.1")
        license = "BSD-3-Clause" if purl else ""
        paths = ("lib/libexecutorch.so", "lib/unused.metallib")
        self.say("library", label, purl, license, *paths)
        self.say("linked", label, "pkg:github/kkos/oniguruma@v6.9.10", "BSD-2-Clause")
        return directory

    def package(self, name: str, kind: str, files: Mapping[str, Path], apps: Sequence[str]) -> None:
        """A zip of files as a package of apps."""
        relative = f"{name}.{kind}"
        write_zip(self.folder / relative, [Entry(path, source) for path, source in files.items()])
        self.say("file", f"{relative}={self.folder / relative}")
        key = "debug" if kind == "apk" else ""
        self.say("package", f"//x:{name}", kind, relative, key, *(f"//x:{app}" for app in apps))

    def loose(self, programs: Sequence[tuple[Path, Path]], data: Sequence[str]) -> None:
        """Programs that lie in the release as files."""
        app = App("//x:release")
        files = [(f"//m:{one}", self.file(f"{one}.ptd")) for one in data]
        known = describe(app, add_programs(app, programs, files), app.files)
        self.say("loose", self.file("loose.json", manifest.text(known)))
        for relative, source in app.files.items():
            path = self.folder / relative
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(source.read_bytes())
            self.say("file", f"{relative}={path}")

    def make(self, previous: Path | None = None, **status: str) -> int:
        """Runs EtRelease; returns its exit code.

        Args:
            previous: manifest of an earlier release.
            **status: contents of the files of the workspace's status.
        """
        lists = {
            "origins": self.file("origins.tsv", ORIGINS),
            "manifest": self.folder / "manifest.json",
            "sbom": self.folder / "sbom.cdx.json",
            "checksums": self.folder / "SHA256SUMS",
        }
        if previous:
            lists |= {"previous": previous, "changes": self.folder / "changes.json"}
        lists |= {name: self.file(name, text) for name, text in status.items()}
        words = [f"--{name}={path}" for name, path in lists.items()]
        for flag, said in self.arguments.items():
            for values in said:
                words += [f"--{flag}", *values]
        return release.main(words)

    def json(self, name: str) -> dict[str, Any]:
        """A list of the release."""
        return json.loads((self.folder / name).read_text())


def whole(scratch: Path) -> Release:
    """Two apps on one foundation, one of them in an APK only, and a program beside them."""
    made = Release(scratch)
    programs = [
        made.program("base", "foundation", weights=["model.gguf"]),
        made.program("task", "foundation", weights=["model.safetensors"]),
    ]
    made.app("chat", "linux_x86_64", programs, ["foundation"], "chat-linux_x86_64.tar.zst")
    phone = made.app(
        "phone", "android_arm64", programs[:1], ["foundation"], purl="pkg:npm/runtime@0.9.3"
    )
    kept = ("lib/libexecutorch.so", "programs/base.pte", "data/foundation.ptd")
    made.package("chat_apk", "apk", {f"assets/{p}": phone / p for p in kept}, ["phone"])
    made.loose([made.program("update", "foundation")], ["foundation"])
    return made
