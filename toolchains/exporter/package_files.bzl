"""package_files: a repository of what a package holds, pinned by hash. Nothing of the package runs."""

load("//toolchains/exporter:downloads.bzl", "reproducible")
load("//toolchains/exporter:extract.bzl", "extract")
load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE", "host_platform")
load("//toolchains/exporter:lock_hashes.bzl", "locked_file")
load("//toolchains/exporter:npm_file.bzl", "npm_file")
load("//toolchains/exporter:package_file.bzl", "package_file")
load("//toolchains/exporter:unpack.bzl", "move_unpacked", "unpack_inner", "unpack_wheel")

_ORIGINS = {
    "npm": "the npm package ",
    "source": "the source of ",
    "wheel": "the wheel of ",
}

def _pinned(rctx):
    """The hashes of which one is the file's, and URLs by hash."""
    if rctx.attr.locks:
        return locked_file(rctx, rctx.attr.locks, rctx.attr.package)
    by_host = rctx.attr.sha256_by_host
    if by_host:
        host = host_platform(rctx)
        return struct(hashes = [by_host[host]] if host in by_host else by_host.values(), urls = {})
    sha256 = rctx.attr.sha256
    return struct(hashes = [sha256], urls = {sha256: rctx.attr.urls} if rctx.attr.urls else {})

def _unpacked(rctx, pinned, origin):
    """Fetches and unpacks the package; returns the path of the folder that has its files."""
    package = rctx.attr.package
    if rctx.attr.kind == "wheel":
        return unpack_wheel(rctx, package, pinned.hashes, rctx.attr.platform, pinned.urls)

    # Bazel tells an archive's kind by its name.
    archive = rctx.path("source.tar.gz")
    if rctx.attr.kind == "npm":
        npm_file(rctx, package = package, sha256 = rctx.attr.sha256, output = archive, urls = pinned.urls)
    else:
        package_file(rctx, is_source = True, output = archive, requirement = package, sha256 = pinned.hashes, urls = pinned.urls)
    extract(rctx, archive, "unpacked", origin)
    rctx.delete(archive)
    contents = rctx.path("unpacked").readdir()
    if len(contents) != 1:
        fail("@%s: entries at the top of %s: got %d, expected one folder." % (rctx.name, origin, len(contents)))
    return contents[0]

def _change(rctx, path, changes):
    """Replaces texts in a file of the repository."""
    text = rctx.read(path)
    for i in range(0, len(changes), 2):
        if changes[i] not in text:
            fail("@%s: %s lacks a text to replace, of another version: %s" % (rctx.name, path, changes[i]))
        text = text.replace(changes[i], changes[i + 1])
    rctx.file(path, text, executable = False)

_FOLDER = """
filegroup(
    name = "%s",
    srcs = glob(["%s/**"]),
)
"""

def _build_file(rctx):
    """The BUILD file of a repository that is given none: a target for each file and folder."""
    paths = sorted(rctx.attr.files.keys())
    folders = [path for path in paths if rctx.path(path).is_dir]
    files = [path for path in paths if path not in folders]
    rctx.file("BUILD.bazel", "\n".join([
        "package(default_visibility = [\"//visibility:public\"])",
        "",
        "exports_files(%r)" % files,
    ]) + "\n" + "".join([_FOLDER % (path, path) for path in folders]))

def _package_files_impl(rctx):
    origin = _ORIGINS[rctx.attr.kind] + rctx.attr.package
    pinned = _pinned(rctx)
    folder = _unpacked(rctx, pinned, origin)
    for name in rctx.attr.archives:
        unpack_inner(rctx, folder, name, origin)
    move_unpacked(rctx, folder, rctx.attr.files, origin)
    for path, changes in rctx.attr.changes.items():
        _change(rctx, path, changes)
    if rctx.attr.build_file:
        rctx.template("BUILD.bazel", rctx.attr.build_file, rctx.attr.substitutions, executable = False)
    else:
        _build_file(rctx)
    return reproducible(rctx, len(pinned.hashes) == 1 and not rctx.attr.sha256_by_host)

package_files = repository_rule(
    implementation = _package_files_impl,
    doc = """Files and folders of a package: a wheel, the source archive of a Python package, or an npm package.

It comes from its URL, or else from where the settings of pip or npm on the machine lead.

```starlark
package_files(
    name = "some_libraries",
    archives = ["android/some.aar"],
    build_file = "//:some.BUILD",
    files = {"lib/libsome.so": "android/some.aar/jni/arm64-v8a/libsome.so"},
    kind = "npm",
    package = "some@1.2.3",
    sha256 = "…",
)
```
""",
    attrs = {
        "archives": attr.string_list(
            doc = "Paths of archives in the package (.aar, .jar, .zip, .tar.gz) that are folders for `files`.",
        ),
        "build_file": attr.label(
            allow_single_file = True,
            doc = "Default: each of `files` is a target.",
        ),
        "changes": attr.string_list_dict(
            doc = "Path of a file in the repository to texts in it, each followed by what replaces it.",
        ),
        "files": attr.string_dict(
            mandatory = True,
            doc = "Path in the repository to path in the package, of files or folders; what lies inside of " +
                  "another one first.",
        ),
        "kind": attr.string(default = "wheel", values = _ORIGINS.keys()),
        "locks": attr.label_list(
            allow_files = [".txt"],
            doc = "Instead of sha256: locks, of which one has the package with its hashes.",
        ),
        "package": attr.string(mandatory = True, doc = "\"name==version\"; of npm: \"name@version\"."),
        "platform": attr.string(doc = "Platform tag of the wheel; default: the host's."),
        "sha256": attr.string(doc = "Of the file: the wheel, the source archive, or what `npm pack` gives."),
        "sha256_by_host": attr.string_dict(doc = "Instead of sha256: of the wheels, by the machine that fetches it."),
        "substitutions": attr.string_dict(doc = "Text in the BUILD file to what replaces it."),
        "urls": attr.string_list(doc = "Of the file with the sha256, for Bazel's downloader."),
    },
    environ = [PYTHON_VARIABLE],
)
