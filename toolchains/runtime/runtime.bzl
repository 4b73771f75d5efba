"""ExecuTorch's C++ runtimes, and the libraries of the runner."""

load("//toolchains/exporter:sdist.bzl", "sdist_folders")
load("//toolchains/exporter:wheel.bzl", "wheel_folders")
load("//toolchains/runtime:origins.bzl", "NLOHMANN_JSON_VERSION")

# Platform to the tag of the wheel that has its runtime.
RUNTIME_PLATFORMS = {
    "linux_arm64": "manylinux_2_28_aarch64",
    "linux_x86_64": "manylinux_2_28_x86_64",
    "macos_arm64": "macosx_14_0_arm64",
}

def runtime_repository(platform, executorch_version, *, sha256 = "", locks = []):
    """One platform's runtime, as the repository `executorch_runtime_<platform>`.

    Args:
      platform: a key of RUNTIME_PLATFORMS.
      executorch_version: e.g. "1.5.1".
      sha256: of the wheel that has it.
      locks: list of labels, in the place of sha256: one of them has the wheel's hash.
    """
    wheel_folders(
        name = "executorch_runtime_" + platform,
        build_file = Label("//toolchains/runtime:wheel.BUILD"),
        folders = {
            "include": "executorch/include",
            "lib": "executorch/lib",
            "license/executorch": "executorch-%s.dist-info/licenses" % executorch_version,
        },
        locks = locks,
        platform = RUNTIME_PLATFORMS[platform],
        requirement = "executorch==" + executorch_version,
        sha256 = sha256,
        substitutions = {
            "%{executorch_version}": executorch_version,
            "%{platform}": platform,
        },
    )

def json_repository():
    """nlohmann's JSON library: headers only, so one wheel for all platforms."""
    wheel_folders(
        name = "executorch_runner_json",
        build_file = Label("//toolchains/runtime:json.BUILD"),
        folders = {
            "include": "nlohmann_json/include",
            "license": "nlohmann_json-%s.dist-info/licenses" % NLOHMANN_JSON_VERSION,
        },
        requirement = "nlohmann-json==" + NLOHMANN_JSON_VERSION,
        sha256 = "5f6132720fb25d0d70bf0742f8397b49a540dcc193e7312a914f6aa49f054810",
    )

def pcre2_repository():
    """PCRE2, which tokenizers split text with: its source, out of that of its Python bindings."""
    source = "src/libpcre2/"
    sdist_folders(
        name = "executorch_pcre2",
        build_file = Label("//toolchains/runtime:pcre2.BUILD"),
        folders = {
            "config/config.h": source + "src/config.h.generic",
            "config/pcre2_chartables.c": source + "src/pcre2_chartables.c.dist",
            "include/pcre2.h": source + "src/pcre2.h.generic",
            "license/LICENCE.md": source + "LICENCE.md",
            "src": source + "src",
        },
        requirement = "pcre2==0.7.1",
        sha256 = "69ced4288892e2571dd792e7bfb12371bb059f226204bf03300664177c508b64",
    )
