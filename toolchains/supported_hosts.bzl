"""Machines that Bazel may run on."""

def check_host(os_name):
    """Fails on a machine that these rules do not support.

    Args:
      os_name: string: its operating system, as repository contexts have it ("linux", "mac os x", "windows 11").
    """
    if not os_name.startswith("linux") and not os_name.startswith("mac"):
        fail("rules_executorch: operating system of this machine: got \"%s\", expected Linux or macOS. On Windows, run Bazel in WSL 2." %
             os_name)
