"""An example release: apps as EtApp writes them, and the description that analysis writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbundle import app_archive
from etbundle.app import App, Program, add_libraries, add_programs, describe_files, write
from etbundle.archives import write_zip
from etbundle.entries import Entry
from etbundle.release import release

RECIPE = {
    "label": "//backends/xnnpack:fp32",
    "builder": "recipes:fp32",
    "options": {"group_size": "32"},
    "base": None,
    "data": [],
}
ORIGINS = {
    "hub_model": {
        "license": "LicenseRef-llama3.2 AND MIT",
        "purl": f"pkg:huggingface/org/Model-1B@{'0' * 40}",
    }
}
METADATA = {
    "torch": "Name: torch\nVersion: 2.13.0+cpu\nLicense-Expression: BSD-3-Clause AND MIT\n",
    "Jinja2": "Name: Jinja2\nVersion: 3.1.6\n"
    "Classifier: License :: OSI Approved :: BSD License\nClassifier: Topic :: Text\n",
}


class Release:
    """Files of a release below a folder.

    Attributes:
        folder: where the release is written.
        description: what analysis would say; a test may change it before `make`.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self.folder = scratch / "release"
        self.folder.mkdir(parents=True)
        metadata = [
            str(self.file(f"{name}.dist-info/METADATA", "Metadata-Version: 2.4\n" + text))
            for name, text in METADATA.items()
        ]
        self.description: dict[str, Any] = {
            "label": "//x:release",
            "name": "release",
            "version": "",
            "exporter": {"executorch": "1.5.1", "torch": "2.13.0", "metadata": metadata},
            "backend_packages": [],
            "apps": [],
            "packages": [],
            "programs": [],
            "models": [],
            "loose": "",
            "files": {},
        }

    def file(self, name: str, text: str = "") -> Path:
        """Writes a file outside of the release."""
        path = self._scratch / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text or name)
        return path

    def program(self, name: str, *data: str, weights: Sequence[str] = ()) -> Program:
        """A program of a model, and what analysis says of both."""
        label, model = f"//m:{name}", f"//m:{name}_model"
        said = {"label": label, "model": model, "recipe": RECIPE, "packages": []}
        if said not in self.description["programs"]:
            self.description["programs"].append(said)
            files = [
                {
                    "label": f"//m:{one}",
                    "path": str(self.file(f"weights/{one}")),
                    "repository": "hub_model" if one.endswith(".safetensors") else "",
                }
                for one in weights
            ]
            self.description["models"].append(
                {"label": model, "entry_point": "m:build", "files": files}
            )
        manifest = {"format": 1, "data": [{"label": f"//m:{d}", "file": "f.ptd"} for d in data]}
        return Program(
            label,
            name,
            self.file(f"{name}.pte"),
            self.file(f"{name}.manifest.json", json.dumps(manifest)),
        )

    def app(
        self,
        name: str,
        platform: str,
        programs: Sequence[Program],
        data: Sequence[str] = (),
        file: str = "",
        purl: str = "pkg:pypi/executorch@1.5.1",
    ) -> Path:
        """An app, its archive if `file` names one, and what analysis says of it; its directory."""
        library = self.file(f"{platform}/libexecutorch.so")
        label = f"//x:{name}"
        fit = {
            "libraries": [{"label": "//rt:core"}],
            "programs": {
                p.label: {
                    "forward": {"backends": ["XnnpackBackend"], "operators": ["aten::add.out"]}
                }
                for p in programs
            },
        }
        app = App({"app": name, "label": label, "platform": platform}, fit)
        app.executables.add(app.add("runner", self.file(f"{platform}/{name}/runner")))
        libraries = add_libraries(app, [("//rt:core", "lib", str(library))])
        described = add_programs(
            app, programs, [(f"//m:{one}", self.file(f"{one}.ptd")) for one in data]
        )
        assets = [app.add("assets/words.txt", self.file("words.txt"))]
        app.add("licenses/LICENSE", self.file("LICENSE"))
        directory = self._scratch / "apps" / name
        write(
            app,
            {"binary": "runner", "libraries": libraries, "programs": described, "assets": assets},
            directory,
        )
        if file:
            archive = self.folder / file
            arguments = ["--app", directory, "--prefix", name, "--output", archive]
            assert app_archive.main([str(a) for a in arguments]) == 0
            self.description["files"][file] = str(archive)
        self.description["apps"].append(
            {
                "label": label,
                "name": name,
                "platform": platform,
                "file": file,
                "manifest": str(directory / "manifest.json"),
                "runtime": {"label": f"//rt:{platform}", "version": "1.5.1"},
                "libraries": [
                    {
                        "label": "//rt:core",
                        "paths": ["lib/libexecutorch.so", "lib/unused.metallib"],
                        "purl": purl,
                        "license": "BSD-3-Clause" if purl else "",
                    }
                ],
                "linked": {"pkg:github/kkos/oniguruma@v6.9.10": "BSD-2-Clause"},
            }
        )
        return directory

    def package(self, name: str, kind: str, files: Mapping[str, Path], apps: Sequence[str]) -> None:
        """A zip of files as a package of apps."""
        relative = f"{name}.{kind}"
        write_zip(self.folder / relative, [Entry(path, source) for path, source in files.items()])
        self.description["files"][relative] = str(self.folder / relative)
        self.description["packages"].append(
            {
                "label": f"//x:{name}",
                "kind": kind,
                "file": relative,
                "signing_key": "debug" if kind == "apk" else "",
                "apps": [f"//x:{app}" for app in apps],
            }
        )

    def loose(self, programs: Sequence[Program], data: Sequence[str]) -> None:
        """Programs that lie in the release as files."""
        app = App({"label": "//x:release"}, {"programs": {}})
        described = add_programs(
            app, programs, [(f"//m:{one}", self.file(f"{one}.ptd")) for one in data]
        )
        whole = {
            "programs": described,
            "assets": [],
            "data": [],
            "files": describe_files(app.files),
        }
        self.description["loose"] = str(self.file("loose.json", json.dumps(whole)))
        for relative, source in app.files.items():
            path = self.folder / relative
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(source.read_bytes())
            self.description["files"][relative] = str(path)

    def make(
        self, repository: Sequence[str] = (), previous: Path | None = None, **status: str
    ) -> int:
        """Runs EtRelease; returns its exit code.

        Args:
            repository: a label as the description and as manifests have it.
            previous: manifest of an earlier release.
            **status: contents of the files of the workspace's status.
        """
        given = self.file("description.json", json.dumps(self.description))
        lists = {
            "description": given,
            "origins": self.file("origins.json", json.dumps(ORIGINS)),
            "manifest": self.folder / "manifest.json",
            "sbom": self.folder / "sbom.cdx.json",
            "checksums": self.folder / "SHA256SUMS",
        }
        if previous:
            lists |= {"previous": previous, "changes": self.folder / "changes.json"}
        lists |= {name: self.file(name, text) for name, text in status.items()}
        flags = [f"--{name}={path}" for name, path in lists.items()]
        return release.main(flags + (["--repository", *repository] if repository else []))

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
