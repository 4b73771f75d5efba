"""The host's Python interpreter, which repository rules copy and fetch with."""

load("//toolchains/exporter:downloads.bzl", "merged_file_urls", "parse_file_urls")

PYTHON_VERSION = "3.11"
PYTHON_VARIABLE = "RULES_EXECUTORCH_PYTHON"
_EXPECTED = "CPython " + PYTHON_VERSION

# The root module's `executorch.exporter(python = …)` or `(interpreter = …)`, for every repository that starts Python.
_CHOICE = Label("@executorch_python//:python.txt")

def _fetch_choices_impl(rctx):
    python = rctx.attr.python
    if rctx.attr.interpreter:
        # The real file: rules_python's is a link into the repository of this machine's platform.
        python = str(rctx.path(rctx.attr.interpreter).realpath)
    rctx.file("BUILD.bazel", "")
    rctx.file("python.txt", python)
    urls = [parse_file_urls(rctx.read(label), str(label)) for label in rctx.attr.file_urls]
    rctx.file("file_urls.json", json.encode_indent(merged_file_urls(urls)) + "\n")

fetch_choices = repository_rule(
    implementation = _fetch_choices_impl,
    doc = "Choices of the root module for all that is fetched: python.txt, the name of the interpreter or " +
          "nothing; file_urls.json, an object of sha256 to URLs.",
    attrs = {
        "file_urls": attr.label_list(allow_files = True),
        "interpreter": attr.label(
            allow_single_file = True,
            doc = "A file of another repository, in place of `python`.",
        ),
        "python": attr.string(doc = "A path, or a name on PATH."),
    },
)

def host_platform(rctx):
    """The machine that Bazel runs on: "linux_x86_64", "macos_arm64"."""
    system = "macos" if rctx.os.name.startswith("mac") else rctx.os.name
    cpu = {"aarch64": "arm64", "amd64": "x86_64"}.get(rctx.os.arch, rctx.os.arch)
    return "%s_%s" % (system, cpu)

def _probe(rctx, python):
    """Asks an interpreter for version ("CPython 3.11") and executable: a struct, or None if it does not run."""
    result = rctx.execute([
        python,
        "-I",
        "-c",
        "import platform, sys; " +
        "print(platform.python_implementation(), '%d.%d' % sys.version_info[:2]); print(sys.executable)",
    ])
    lines = result.stdout.strip().split("\n")
    if result.return_code != 0 or len(lines) != 2:
        return None
    return struct(version = lines[0], executable = lines[1])

def _wrong_python(rctx, got):
    fail("\n".join([
        "@{}: this machine has no usable interpreter: got {}, expected {}. Do one of these:".format(
            rctx.name,
            got,
            _EXPECTED,
        ),
        "- Install it, and put it on PATH as python{0}: apt-get install python{0} (Debian 12, Ubuntu 22.04), dnf install python{0} (Fedora, RHEL 9), or uv python install {0} anywhere.".format(PYTHON_VERSION),
        "- Name one by its path: executorch.exporter(python = \"/path/to/python{0}\"), or --repo_env={1}=/path/to/python{0}.".format(
            PYTHON_VERSION,
            PYTHON_VARIABLE,
        ),
        "- Let rules_python download one: python.toolchain(python_version = \"{}\") and {}.".format(
            PYTHON_VERSION,
            "executorch.exporter(interpreter = \"@python_3_11_host//:python\")",
        ),
    ]))

def find_host_python(rctx, python = ""):
    """The interpreter that was asked for, or the first of the right version on PATH.

    Args:
      rctx: repository context.
      python: a path, or a name on PATH; empty: the exporter's, or any of the right version.

    Returns:
      A string: its path.
    """
    asked = rctx.getenv(PYTHON_VARIABLE, "") or python or rctx.read(_CHOICE)
    seen = []
    for name in [asked] if asked else ["python" + PYTHON_VERSION, "python3"]:
        python = rctx.path(name) if "/" in name else rctx.which(name)
        if not python or not python.exists:
            seen.append("{}: not found".format(name))
            continue
        probed = _probe(rctx, python)
        if probed and probed.version == _EXPECTED:
            return probed.executable
        seen.append("{}: {}".format(
            python,
            probed.version if probed else "it does not run",
        ))
    return _wrong_python(rctx, ", ".join(seen))
