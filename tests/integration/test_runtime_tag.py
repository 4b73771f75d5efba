"""executorch.runtime() with archives of ExecuTorch's own layout, out of a server of files.

The archives are fakes: their libraries are those of the bundled runtimes, packed as ExecuTorch
packs its AAR for Android and its xcframeworks. No public Maven repository was ever asked.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

_MODULE = """
module(name = "user")
bazel_dep(name = "rules_executorch", version = "0.1.0")
local_path_override(module_name = "rules_executorch", path = "{module}")
executorch = use_extension("@rules_executorch//toolchains:extensions.bzl", "executorch")
executorch.runtime(
    platform = "{platform}",
    {source}
)
use_repo(executorch, runtime = "executorch_runtime_{platform}")
"""
_BUILD = """
load(":registered.bzl", "registered")

registered(name = "registered", runtime = "@runtime//:runtime")
registered(name = "current", runtime = "@rules_executorch//toolchains/runtime:current")
"""
_RULE = """
load("@rules_executorch//rules:providers.bzl", "EtRuntimeInfo")

def _impl(ctx):
    runtime = ctx.attr.runtime[EtRuntimeInfo]
    libraries = [runtime.core] + runtime.core.deps.to_list() + runtime.always
    licenses = [file.short_path.split("/license/")[1] for file in runtime.license_files.to_list()]
    text = json.encode({
        "backends": runtime.core.backends,
        "executorch_version": runtime.executorch_version,
        "headers": len(runtime.headers.compilation_context.headers.to_list()),
        "libraries": {library.file.basename: library.purl for library in libraries},
        "licenses": sorted(licenses),
        "platform": runtime.platform,
    })
    output = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(output, text)
    return DefaultInfo(files = depset([output, runtime.core.registered]))

registered = rule(_impl, attrs = {"runtime": attr.label(providers = [EtRuntimeInfo])})
"""
_MAVEN = "org.pytorch:executorch-android:1.5.1"
_AAR = "org/pytorch/executorch-android/1.5.1/executorch-android-1.5.1.aar"
_ABI = "jni/arm64-v8a/"


class Server:
    """A server of archives, and a workspace whose tag names one of them."""

    def __init__(self, folder: Path) -> None:
        (self.libraries,) = Path("..").glob("*executorch_mobile_libraries")
        self.served = folder / "served"
        self.served.mkdir()
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=self.served)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.workspace = Workspace(
            folder / "workspace",
            source=self._write,
            repositories=("executorch_android_support", "executorch_runtime_linux_x86_64"),
        )

    def _write(self, folder: Path, module: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._module = module
        (folder / "BUILD.bazel").write_text(_BUILD)
        (folder / "registered.bzl").write_text(_RULE)

    def serve(self, path: str, members: Mapping[str, bytes]) -> str:
        """Writes a zip archive that the server has; returns its sha256."""
        target = self.served / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(target, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return hashlib.sha256(target.read_bytes()).hexdigest()

    def aar(self) -> dict[str, bytes]:
        """Members of a fake of ExecuTorch's AAR."""
        return {
            "AndroidManifest.xml": b"<manifest/>",
            "classes.jar": (self.libraries / "executorch.jar").read_bytes(),
            _ABI + "libexecutorch.so": self.library("arm64-v8a/libexecutorch.so"),
        }

    def library(self, path: str) -> bytes:
        return (self.libraries / path).read_bytes()

    def choose(self, platform: str, **source: str | list[str]) -> None:
        """Writes the tag of a platform's runtime."""
        lines = "\n    ".join(f"{name} = {json.dumps(value)}," for name, value in source.items())
        text = _MODULE.format(module=self._module, platform=platform, source=lines)
        (self.workspace.folder / "MODULE.bazel").write_text(text)

    def choose_maven(self, sha256: str) -> None:
        repository = f"{self.address}/"
        self.choose("android_arm64", maven=_MAVEN, maven_repository=repository, sha256=sha256)

    def failed(self) -> str:
        """Returns Bazel's message for a runtime that cannot be fetched; nothing of it is left."""
        said = self.workspace.failed("//:registered")
        unpacked = "external/*executorch_runtime_android*/BUILD.bazel"
        assert not list(self.workspace.base.glob(unpacked))
        return said

    def close(self) -> None:
        self.workspace.close()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    new_server = Server(tmp_path_factory.mktemp("runtime"))
    yield new_server
    new_server.close()


def test_archives_that_are_refused(server: Server) -> None:
    """Each problem has one message, with what to do."""
    good = server.aar()
    sha256 = server.serve(_AAR, good)
    server.choose_maven("0" * 64)
    said = server.failed()
    assert f"{_MAVEN} cannot be fetched (expected sha256: {'0' * 64}) from {server.address}" in said
    assert "Checksum was " + sha256 in said
    (server.served / _AAR).unlink()
    server.choose_maven(sha256)
    said = server.failed()
    assert f"{_MAVEN} cannot be fetched (expected sha256: {sha256})" in said
    assert "404" in said
    server.serve(_AAR, good)
    data = (server.served / _AAR).read_bytes()[: -len(good) * 20]
    (server.served / _AAR).write_bytes(data)
    server.choose_maven(hashlib.sha256(data).hexdigest())
    assert f"{_MAVEN} is refused: it cannot be read: " in server.failed()
    for members, problem in [
        ({"../../evil": b"evil"}, 'is refused: "../../evil" is a path that leads out of it.'),
        (
            {"jni/x86_64/libexecutorch.so": b""},
            "got nothing in jni/arm64-v8a, and the ABIs x86_64. Set executorch.runtime() to",
        ),
        (
            {_ABI + "libfbjni.so": b"", "jni/x86/libfbjni.so": b""},
            f"{_ABI}libexecutorch.so not found: got libfbjni.so in jni/arm64-v8a, and the ABIs ",
        ),
        (
            {_ABI + "libexecutorch.so": good[_ABI + "libexecutorch.so"][:-100]},
            "lib/libexecutorch.so: this ELF file is damaged: ",
        ),
    ]:
        server.choose_maven(server.serve(_AAR, members))
        assert problem in server.failed()


def test_an_aar_in_a_maven_repository(server: Server) -> None:
    """The libraries that it lacks come from the bundled runtime, and headers from the wheel."""
    server.choose_maven(server.serve(_AAR, server.aar() | {_ABI + "libextra.so": b"extra"}))
    platform = "--platforms=@rules_executorch//toolchains/platforms:android_arm64"
    server.workspace.run("build", "//:current", platform)
    outputs = server.workspace.folder / "bazel-bin"
    current = json.loads((outputs / "current.json").read_text())
    purl = "pkg:maven/org.pytorch/executorch-android@1.5.1"
    assert current.pop("headers") > 100
    assert "react-native/LICENSE" in current.pop("licenses")
    assert current == {
        "backends": ["VulkanBackend", "XnnpackBackend"],
        "executorch_version": "1.5.1",
        "libraries": {
            "libc++_shared.so": "pkg:npm/react-native@0.70.15",
            "libexecutorch_jni.so": purl,
            "libextra.so": purl,
            "libfbjni.so": "pkg:npm/react-native@0.70.15",
        },
        "platform": "android_arm64",
    }
    (registered,) = outputs.glob("external/*/core.registered")
    assert "operator aten::add.out" in registered.read_text().splitlines()
    (jar,) = server.workspace.base.glob("external/*executorch_runtime_android_arm64/java/*.jar")
    assert jar.read_bytes() == server.library("executorch.jar")


def test_zips_of_xcframeworks(server: Server) -> None:
    """The core and a backend are archives of their own."""
    slice = "ios-arm64/ExecutorchLib.framework/"
    source = server.libraries / "ExecutorchLib.xcframework"
    core = {f"ExecutorchLib.xcframework/{p}": (source / p).read_bytes() for p in ("Info.plist",)}
    for file in (source / slice).iterdir():
        core[f"ExecutorchLib.xcframework/{slice}{file.name}"] = file.read_bytes()
    other = {"README.md": b"", "more.xcframework/ios-arm64/libmore.a": b"!<arch>\n"}
    archives = []
    for name, members in {"executorch.zip": core, "more.zip": other}.items():
        archives.append(f"{server.address}/{name}#sha256={server.serve(name, members)}")
    server.choose("ios_arm64", archives=archives, executorch_version="1.5.1")
    server.workspace.run("build", "//:registered")
    built = json.loads((server.workspace.folder / "bazel-bin/registered.json").read_text())
    assert built["backends"] == ["CoreMLBackend", "MLXBackend", "MPSBackend", "XnnpackBackend"]
    assert list(built["libraries"]) == ["ExecutorchLib", "libmore.a"]
    assert built["platform"] == "ios_arm64"
    empty = server.serve("empty.zip", {"README.md": b""})
    archives = [f"{server.address}/empty.zip#sha256={empty}"]
    server.choose("ios_arm64", archives=archives, executorch_version="1.5.1")
    assert "empty.zip: no xcframework found: got README.md, expected" in server.workspace.failed(
        "//:registered"
    )
