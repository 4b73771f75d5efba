"""CPython for machines that have none: a build of python-build-standalone, by hash.

The same build on each kind of machine, whatever is installed there, so such machines share lowered programs. The hashes are
those that rules_python 2.3 lists for these files.
"""

load("//toolchains/exporter:downloads.bzl", "download_known", "reproducible", "root_file_urls")

_VERSION = "3.11.15"
_RELEASE = "20260414"
_FOLDERS = [
    "https://github.com/astral-sh/python-build-standalone/releases/download",
    "https://releases.astral.sh/github/python-build-standalone/releases/download",
]

# Machine to the build's name for it and the archive's sha256.
_BUILDS = {
    "linux_arm64": ("aarch64-unknown-linux-gnu", "77836944ae15b74e0b25bdc68a4703a340f2ccb684effc0f45fbd7910e1a1f39"),
    "linux_x86_64": ("x86_64-unknown-linux-gnu", "8b14030dd3af9ea7f7c51b4c90feb04afd8a8f45435727e67b875270bd08f3bc"),
    "macos_arm64": ("aarch64-apple-darwin", "a57ffd435652092d16b30e783f9826c55e9c64b0f0a72cbae0a9f39e663137fb"),
}
_PROGRAM = "bin/python3.11"

# Machine to the interpreter. Bazel fetches it where a repository rule asks for its path.
STANDALONE_PYTHONS = {
    "linux_arm64": Label("@executorch_python_linux_arm64//:bin/python3.11"),
    "linux_x86_64": Label("@executorch_python_linux_x86_64//:bin/python3.11"),
    "macos_arm64": Label("@executorch_python_macos_arm64//:bin/python3.11"),
}

def _standalone_python_impl(rctx):
    # buildifier: disable=print
    print(("fetching CPython %s of python-build-standalone. Machines with another build of CPython share no lowered programs with " +
           "this one: see \"Pin the Python interpreter\" in docs/howto/ci.md of rules_executorch.") % rctx.attr.version)
    archive = "python.tar.gz"
    sha256 = rctx.attr.sha256

    # A mirror of the user's is asked instead: the archive's own place may be behind a wall that answers nothing.
    mirrored = sha256 in root_file_urls(rctx)
    if not download_known(
        rctx,
        sha256 = [sha256],
        output = archive,
        urls = {} if mirrored else {sha256: rctx.attr.urls},
        allow_fail = True,
    ):
        fail(("@%s: CPython %s: Bazel could not download it; its warning above has the reason. Put a CPython 3.11 on PATH as " +
              "python3.11, name one with --repo_env=RULES_EXECUTORCH_PYTHON=/path/to/python3.11, or add a URL of a mirror with " +
              "#sha256=%s to a list of executorch.file_urls() in your MODULE.bazel.") %
             (rctx.name, rctx.attr.version, sha256))

    # By position, as Bazel 7 and later ones have other names for the prefix.
    rctx.extract(archive, "", "python")
    rctx.delete(archive)
    rctx.file("BUILD.bazel", "exports_files([\"%s\"])\n" % _PROGRAM, executable = False)
    return reproducible(rctx)

standalone_python = repository_rule(
    implementation = _standalone_python_impl,
    doc = "A relocatable CPython 3.11, out of an archive with the folder `python`: //:%s." % _PROGRAM,
    attrs = {
        "sha256": attr.string(mandatory = True, doc = "Of the archive, a .tar.gz."),
        "urls": attr.string_list(mandatory = True, doc = "Of the archive, unless lists of the root module have some."),
        "version": attr.string(default = _VERSION, doc = "CPython's, for messages."),
    },
)

def standalone_python_repositories():
    """Declares CPython for each kind of machine."""
    for machine, (triple, sha256) in _BUILDS.items():
        name = "cpython-%s%%2B%s-%s-install_only.tar.gz" % (_VERSION, _RELEASE, triple)
        standalone_python(
            name = "executorch_python_" + machine,
            sha256 = sha256,
            urls = ["%s/%s/%s" % (folder, _RELEASE, name) for folder in _FOLDERS],
        )
