"""The host's Python interpreter, which repository rules copy and fetch with."""

load("//toolchains/exporter:standalone_python.bzl", "STANDALONE_PYTHONS")

PYTHON_VERSION = "3.11"
PYTHON_VARIABLE = "RULES_EXECUTORCH_PYTHON"
_EXPECTED = "CPython " + PYTHON_VERSION

# In place of an interpreter's name: the one that is fetched where a machine has none.
_STANDALONE = "standalone"

# The root module's `executorch.exporter(python = …)` or `(interpreter = …)`, for every repository that starts Python: a
# path, a name on PATH, a label that begins with @@, or nothing.
_CHOICE = Label("@executorch_python//:python.txt")

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

def _path_of(rctx, python):
    """The path of a label, of a text that is one, of a path, or of a name on PATH; None: no such name."""
    if type(python) == type(_CHOICE):
        return rctx.path(python)
    if python.startswith("@@"):
        # The real file: rules_python's is a link into the repository of this machine's platform.
        return rctx.path(Label(python)).realpath
    return rctx.path(python) if "/" in python else rctx.which(python)

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
        "- Let Bazel download one, on Linux and on macOS arm64: executorch.exporter(python = \"{0}\"), or --repo_env={1}={0}.".format(
            _STANDALONE,
            PYTHON_VARIABLE,
        ),
        "- Take that of rules_python: python.toolchain(python_version = \"{}\") and {}.".format(
            PYTHON_VERSION,
            "executorch.exporter(interpreter = \"@python_3_11_host//:python\")",
        ),
    ]))

def find_host_python(rctx, python = ""):
    """The interpreter that was asked for, the first of the right version on PATH, or one that is fetched.

    Args:
      rctx: repository context.
      python: a path, or a name on PATH; empty: the exporter's, or any of the right version.

    Returns:
      A string: its path.
    """
    asked = rctx.getenv(PYTHON_VARIABLE, "") or python or rctx.read(_CHOICE)
    standalone = STANDALONE_PYTHONS.get(host_platform(rctx))
    names = [asked] if asked else ["python" + PYTHON_VERSION, "python3"] + ([_STANDALONE] if standalone else [])
    seen = []
    for name in names:
        python = _path_of(rctx, standalone if standalone and name == _STANDALONE else name)
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
