"""ExecuTorch's C++ runtimes, and the libraries of the runner."""

load("//toolchains/exporter:package_files.bzl", "package_files")
load("//toolchains/runtime:oniguruma.bzl", "ONIGURUMA_CHANGES")
load("//toolchains/runtime:origins.bzl", "NLOHMANN_JSON_VERSION")
load("//toolchains/runtime:verified.bzl", "VERIFIED_EXPORTERS")

# Platform to the tag of the wheel that has its runtime.
RUNTIME_PLATFORMS = {
    "linux_arm64": "manylinux_2_28_aarch64",
    "linux_x86_64": "manylinux_2_28_x86_64",
    "macos_arm64": "macosx_14_0_arm64",
}

def runtime_repository(platform, executorch_version, *, sha256 = "", urls = [], locks = []):
    """One platform's runtime, as the repository `executorch_runtime_<platform>`.

    Args:
      platform: a key of RUNTIME_PLATFORMS.
      executorch_version: e.g. "1.5.1".
      sha256: of the wheel that has it.
      urls: list of strings: of that wheel, for Bazel's downloader.
      locks: list of labels, instead of sha256: one of them has the wheel's hash.
    """
    package_files(
        name = "executorch_runtime_" + platform,
        build_file = Label("//toolchains/runtime:wheel.BUILD"),
        files = {
            "include": "executorch/include",
            "lib": "executorch/lib",
            "license/executorch": "executorch-%s.dist-info/licenses" % executorch_version,
        },
        locks = locks,
        platform = RUNTIME_PLATFORMS[platform],
        package = "executorch==" + executorch_version,
        sha256 = sha256,
        substitutions = {
            "%{executorch_version}": executorch_version,
            "%{platform}": platform,
            "%{verified_exporters}": str(VERIFIED_EXPORTERS.get(executorch_version, [])),
        },
        urls = urls,
    )

def json_repository():
    """nlohmann's JSON library: headers only, so one wheel for all platforms."""
    package_files(
        name = "executorch_runner_json",
        build_file = Label("//toolchains/runtime:json.BUILD"),
        files = {
            "include": "nlohmann_json/include",
            "license": "nlohmann_json-%s.dist-info/licenses" % NLOHMANN_JSON_VERSION,
        },
        package = "nlohmann-json==" + NLOHMANN_JSON_VERSION,
        sha256 = "5f6132720fb25d0d70bf0742f8397b49a540dcc193e7312a914f6aa49f054810",
    )

def oniguruma_repository():
    """Oniguruma, which tokenizers split text with: in jq's source, which is in that of its Python bindings.

    Version 6.9.10 is what Hugging Face's tokenizers are built with, so patterns mean the same.
    """
    jq = "deps/jq-1.8.1.tar.gz"
    source = jq + "/jq-1.8.1/vendor/oniguruma/"
    package_files(
        name = "executorch_oniguruma",
        archives = [jq],
        build_file = Label("//toolchains/runtime:oniguruma.BUILD"),
        changes = ONIGURUMA_CHANGES,
        files = {
            "include/oniguruma.h": source + "src/oniguruma.h",
            "license/COPYING": source + "COPYING",
            "src": source + "src",
        },
        kind = "source",
        package = "jq==1.10.0",
        sha256 = "fc38803075dbf1867e1b4ed268fef501feecb0c50f3555985a500faedfa70f08",
    )

def libunicode_repository():
    """QuickJS's library for Unicode's normal forms: its source, out of that of QuickJS's Python bindings."""
    package_files(
        name = "executorch_libunicode",
        build_file = Label("//toolchains/runtime:libunicode.BUILD"),
        files = {
            # Its license is at the head of it.
            "license/libunicode.h": "upstream-quickjs/libunicode.h",
            "src": "upstream-quickjs",
        },
        kind = "source",
        package = "quickjs==1.19.4",
        sha256 = "1205953abc24ff757f4a795304d5d61e4bf1e555c9ef6ec96a132d4b95535484",
    )
