"""valgrind_repositories: what counts instructions where the kernel does not; fetched only where a test asks for it."""

load("//toolchains/debian:debian.bzl", "debian_packages")

def valgrind_repositories():
    """Declares `executorch_valgrind`: Debian 12's valgrind, for Linux on x86_64; 14 MB are fetched."""
    debian_packages(
        name = "executorch_valgrind",
        build_file = Label("//toolchains/valgrind:valgrind.BUILD"),
        packages = {
            "valgrind=1:3.19.0-1": "324842f2308a1e42abf2d81ff5eb19a9475fc9db95647f4d9da71444eda4087f",
        },
        purpose = "fetching valgrind, which counts the instructions of programs",
    )
