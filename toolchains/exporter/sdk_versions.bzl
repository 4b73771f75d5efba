"""Versions of vendors' SDKs that the adaptors in ExecuTorch's wheels cannot use.

An adaptor is compiled with the headers of one version. QNN's later headers move members of unions (QnnHtpDevice.h), and
whoever passes the old ones gets "unknown custom config" with error 14001, in the middle of a lowering.
"""

load("//toolchains/exporter:host_python.bzl", "find_host_python")

_QNN_LIBRARY = "lib/x86_64-linux-clang/libQnnHtp.so"
_QNN_VERSION = Label("//toolchains/exporter:qnn_version.py")

# ExecuTorch to its adaptor's QNN API, the oldest SDK that it takes, the first of the others with other headers, and
# later ones that were seen to work.
_QNN = {
    "1.5.1": struct(
        adaptor = "QNN's API 2.27",
        oldest = (2, 30),
        changed = (2, 47),
        working = [(2, 49)],
    ),
}

def check_sdk(rctx, backend, root, executorch_version):
    """Fails where an SDK is known not to fit.

    Args:
      rctx: repository context.
      backend: name of the SDK's backend.
      root: path of the SDK.
      executorch_version: of the exporter.
    """
    known = _QNN.get(executorch_version)
    library = root.get_child(*_QNN_LIBRARY.split("/"))
    if backend != "qualcomm" or not known or not library.exists:
        return
    result = rctx.execute([find_host_python(rctx), "-I", "-B", rctx.path(_QNN_VERSION), library])
    version = result.stdout.strip() if not result.return_code else ""
    if version and not qnn_fits(version, known):
        fail(("executorch.sdk(backend = \"qualcomm\"): version of QNN in %s: got %s, expected %s. The adaptor of " +
              "ExecuTorch %s is compiled for %s. Name the folder of such an SDK, or leave executorch.sdk out: the " +
              "build then fetches one that fits.") %
             (root, version, _expected(known), executorch_version, known.adaptor))

def qnn_fits(version, known = _QNN["1.5.1"]):
    """Tells whether ExecuTorch's adaptor can use a version of QNN.

    Args:
      version: such as "2.49.40".
      known: a struct of the table above.

    Returns:
      Bool.
    """
    numbers = tuple([int(number) for number in version.split(".")[:2]])
    return (known.oldest <= numbers and numbers < known.changed) or numbers in known.working

def _expected(known):
    later = ", ".join(["%d.%d" % numbers for numbers in known.working])
    return "%d.%d or newer, before %d.%d, or %s" % (known.oldest + known.changed + (later,))
