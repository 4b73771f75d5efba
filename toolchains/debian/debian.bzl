"""debian_packages: a repository of unpacked Debian packages, pinned by hash."""

load("//toolchains/exporter:downloads.bzl", "download_known", "reproducible")
load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE", "find_host_python")
load("//toolchains/python:paths.bzl", "own_name")

_MIRROR_VARIABLE = "RULES_EXECUTORCH_DEBIAN_MIRROR"

# A change of them unpacks again.
_HELPER = [
    Label("//toolchains/debian:packages.py"),
    Label("//toolchains/debian:apt.py"),
    Label("//toolchains/debian:command.py"),
]

def _debian_packages_impl(rctx):
    python = find_host_python(rctx)
    for label in _HELPER:
        path = rctx.path(label)
        if hasattr(rctx, "watch"):
            rctx.watch(path)
    packages = rctx.attr.packages
    rctx.report_progress("fetching " + ", ".join(packages.keys()))
    downloaded = {package: _download(rctx, package) for package in packages}
    result = rctx.execute(
        [
            python,
            "-I",
            "-B",
            rctx.path(_HELPER[0]),
            "--output=.",
            "--suite=" + rctx.attr.suite,
            "--architecture=" + rctx.attr.architecture,
        ] + (["--purpose=%s: %s" % (own_name(rctx.name), rctx.attr.purpose)] if rctx.attr.purpose else []) + [
            "--archives=%s" % archive
            for archive in downloaded.values()
            if archive
        ] + [
            "%s#%s" % (package, sha256)
            for package, sha256 in packages.items()
            if not downloaded[package]
        ],
        quiet = not rctx.attr.purpose,
        timeout = 3600,
    )
    if result.return_code:
        fail("@%s: the Debian packages cannot be fetched.\n%s" % (rctx.name, result.stderr.strip()))
    rctx.delete("archives")
    rctx.template("BUILD.bazel", rctx.attr.build_file, rctx.attr.substitutions, executable = False)
    return reproducible(rctx)

def _download(rctx, package):
    """Downloads a package if a URL of it is known; returns its path or None."""
    sha256 = rctx.attr.packages[package]
    urls = rctx.attr.urls.get(package)
    archive = "archives/%s.deb" % package.replace("=", "_").replace(":", "%3a")
    is_downloaded = download_known(
        rctx,
        output = archive,
        sha256 = [sha256],
        urls = {sha256: urls} if urls else {},
    )
    return archive if is_downloaded else None

debian_packages = repository_rule(
    implementation = _debian_packages_impl,
    doc = """Debian packages, unpacked, with a BUILD file.

They come from the Debian archive that the machine's apt knows, or that of the environment variable
RULES_EXECUTORCH_DEBIAN_MIRROR, without touching the machine's packages. None of their scripts runs, and
what they depend on does not come with them. A package with a URL, e.g. of a snapshot of the archive, comes through
Bazel's downloader: it stays available when the archive has a newer version.

```starlark
debian_packages(
    name = "qemu",
    build_file = "//:qemu.BUILD",
    packages = {"qemu-user-static=1:7.2+dfsg-7": "c3e3…"},
    suite = "bookworm",
)
```
""",
    attrs = {
        "architecture": attr.string(
            default = "amd64",
            doc = "Debian's name of the architecture that the packages are for.",
        ),
        "build_file": attr.label(
            allow_single_file = True,
            doc = "The repository's BUILD file.",
            mandatory = True,
        ),
        "packages": attr.string_dict(
            doc = "\"name=version\" of a package to its sha256. Without a version: the archive's newest.",
            mandatory = True,
        ),
        "purpose": attr.string(doc = "Purpose of the packages, which is printed with their size while they are fetched."),
        "substitutions": attr.string_dict(doc = "Text in the BUILD file to what replaces it."),
        "suite": attr.string(
            default = "bookworm",
            doc = "The release that the packages are taken from.",
        ),
        "urls": attr.string_list_dict(
            doc = "Key of `packages` to URLs of that file; default: apt fetches it.",
        ),
    },
    environ = [PYTHON_VARIABLE, _MIRROR_VARIABLE],
)
