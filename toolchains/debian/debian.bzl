"""debian_packages: a repository of unpacked Debian packages, pinned by hash."""

load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE", "find_host_python")

_MIRROR_VARIABLE = "RULES_EXECUTORCH_DEBIAN_MIRROR"

# A change of them unpacks again.
_HELPER = [
    Label("//toolchains/debian:packages.py"),
    Label("//tools/bootstrap:console.py"),
    Label("//tools/bootstrap:debian.py"),
]

def _debian_packages_impl(rctx):
    python = find_host_python(rctx)
    for label in _HELPER:
        path = rctx.path(label)
        if hasattr(rctx, "watch"):
            rctx.watch(path)
    rctx.report_progress("fetching " + ", ".join(rctx.attr.packages.keys()))
    result = rctx.execute(
        [
            python,
            "-I",
            "-B",
            rctx.path(_HELPER[0]),
            "--output=.",
            "--suite=" + rctx.attr.suite,
            "--architecture=" + rctx.attr.architecture,
        ] + ["%s=%s" % item for item in rctx.attr.packages.items()],
        timeout = 3600,
    )
    if result.return_code:
        fail("@%s: the Debian packages cannot be fetched.\n%s" % (rctx.name, result.stderr.strip()))
    rctx.template("BUILD.bazel", rctx.attr.build_file, rctx.attr.substitutions, executable = False)

debian_packages = repository_rule(
    implementation = _debian_packages_impl,
    doc = """Debian packages, unpacked, with a BUILD file.

They come from the Debian archive that the machine's apt knows, or that of the environment variable
RULES_EXECUTORCH_DEBIAN_MIRROR, without touching the machine's packages. None of their scripts runs, and
what they depend on does not come with them.

```starlark
debian_packages(
    name = "qemu",
    build_file = "//:qemu.BUILD",
    packages = {"qemu-user-static": "c3e3…"},
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
            doc = "Name of a package to its sha256.",
            mandatory = True,
        ),
        "substitutions": attr.string_dict(doc = "Text in the BUILD file to what replaces it."),
        "suite": attr.string(
            default = "bookworm",
            doc = "The release that the packages are taken from.",
        ),
    },
    environ = [PYTHON_VARIABLE, _MIRROR_VARIABLE],
)
