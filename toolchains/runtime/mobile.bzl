"""The bundled runtimes of Android and iOS: libraries out of npm packages, headers out of a wheel.

One repository per source is downloaded once; `executorch_runtime_<platform>` holds links to what its
platform needs of them, in the layout of the other platforms' runtimes.
"""

load("//toolchains/exporter:package_files.bzl", "package_files")
load("//toolchains/runtime:archives.bzl", "archive_runtime")
load("//toolchains/runtime:import_names.bzl", "ABIS", "SLICES")
load("//toolchains/runtime:runtimes.bzl", "READY_MADE")
load("//toolchains/runtime:verified.bzl", "VERIFIED_EXPORTERS")

# Of the libraries; the headers are of the same version.
_EXECUTORCH_VERSION = "1.3.1"

# npm packages that the libraries come from; the first has no file of its license, but names it in package.json.
_LIBRARIES = "react-native-executorch@0.9.3"
_SUPPORT = "react-native@0.70.15"
_LICENSE = "MIT"
_SUPPORT_PURL = "pkg:npm/" + _SUPPORT

_REACT_NATIVE_AAR = "android/com/facebook/react/react-native/0.70.15/react-native-0.70.15-release.aar"

def _linked_repository_impl(rctx):
    for target, source in rctx.attr.links.items():
        repository, path = source.split("//:")
        rctx.symlink(rctx.path(Label(repository + "//:BUILD.bazel")).dirname.get_child(path), target)
    rctx.template("BUILD.bazel", rctx.attr.build_file, rctx.attr.substitutions, executable = False)

_linked_repository = repository_rule(
    implementation = _linked_repository_impl,
    doc = "Links to files and folders of other repositories, with a BUILD file.",
    attrs = {
        "build_file": attr.label(mandatory = True, allow_single_file = True),
        # Strings: Bazel has no labels of folders, and fetches what labels in attributes name.
        "links": attr.string_dict(
            mandatory = True,
            doc = "Path in the repository to \"@repository//:path\", which may be a folder.",
        ),
        "substitutions": attr.string_dict(doc = "Text in the BUILD file to what replaces it."),
    },
)

def _substitutions(platform):
    return {
        "%{backends}": str(READY_MADE[platform].backends),
        "%{core}": "libexecutorch_jni.so",
        "%{cxx_shared_license}": _LICENSE,
        "%{cxx_shared_purl}": _SUPPORT_PURL,
        "%{executorch_version}": _EXECUTORCH_VERSION,
        "%{fbjni_license}": _LICENSE,
        "%{fbjni_purl}": _SUPPORT_PURL,
        "%{libraries_purl}": "pkg:npm/" + _LIBRARIES,
        "%{license}": _LICENSE,
        "%{other_libraries}": "[]",
        "%{platform}": platform,
        "%{verified_exporters}": str(VERIFIED_EXPORTERS[_EXECUTORCH_VERSION]),
    }

def _download_repositories():
    package_files(
        name = "executorch_mobile_libraries",
        build_file = Label("//toolchains/runtime:downloaded.BUILD"),
        files = {
            "ExecutorchLib.xcframework": "third-party/ios/ExecutorchLib.xcframework",
            "arm64-v8a/libexecutorch.so": "third-party/android/libs/executorch/arm64-v8a/libexecutorch.so",
            "executorch.jar": "android/libs/classes.jar",
            "package.json": "package.json",
            "x86_64/libexecutorch.so": "third-party/android/libs/executorch/x86_64/libexecutorch.so",
        },
        kind = "npm",
        package = _LIBRARIES,
        sha256 = "70a20a865b82f47ac46c82711d93c2038cf99eccbb9b287494219063f2217622",
    )
    package_files(
        name = "executorch_android_support",
        archives = [_REACT_NATIVE_AAR],
        build_file = Label("//toolchains/runtime:downloaded.BUILD"),
        files = {
            "%s/%s" % (abi, library): "%s/jni/%s/%s" % (_REACT_NATIVE_AAR, abi, library)
            for abi in ABIS.values()
            for library in ["libc++_shared.so", "libfbjni.so"]
        } | {"LICENSE": "LICENSE"},
        kind = "npm",
        package = _SUPPORT,
        sha256 = "937d2850f71d42ed4341f0229dc132b95f20c52af290a8557a072e07c2c3d310",
    )
    package_files(
        name = "executorch_mobile_headers",
        build_file = Label("//toolchains/runtime:downloaded.BUILD"),
        files = {
            "LICENSE": "executorch-%s.dist-info/licenses/LICENSE" % _EXECUTORCH_VERSION,
            "include": "executorch/include",
        },
        platform = "manylinux_2_28_x86_64",
        package = "executorch==" + _EXECUTORCH_VERSION,
        sha256 = "ca69888e7281445c3fe830b259f5e80da4d7116d91fe8d4afb82c0f94ab77238",
    )

def archive_runtime_repository(platform, source, headers_sha256):
    """One platform's runtime out of archives, as the repository `executorch_runtime_<platform>`.

    Args:
      platform: name of the platform.
      source: what runtime_source returns.
      headers_sha256: of the wheel with the C++ headers; empty: those of Linux's runtime.
    """
    archive_runtime(
        name = "executorch_runtime_" + platform,
        archives = json.encode(source.archives),
        executorch_version = source.executorch_version,
        headers_sha256 = headers_sha256,
        platform = platform,
        purl = source.purl,
        support_license = _LICENSE,
        support_purl = _SUPPORT_PURL,
    )

def mobile_runtime_repositories(replaced):
    """The repositories `executorch_runtime_<platform>` of Android and iOS, and what they link to.

    Args:
      replaced: list of platforms whose runtime comes from elsewhere.
    """
    _download_repositories()
    common = {
        "include": "@executorch_mobile_headers//:include",
        "license/executorch/LICENSE": "@executorch_mobile_headers//:LICENSE",
        "license/react-native-executorch/package.json": "@executorch_mobile_libraries//:package.json",
    }
    for platform, abi in ABIS.items():
        if platform in replaced:
            continue
        _linked_repository(
            name = "executorch_runtime_" + platform,
            build_file = Label("//toolchains/runtime:android.BUILD"),
            links = common | {
                "java/executorch.jar": "@executorch_mobile_libraries//:executorch.jar",
                "lib/libc++_shared.so": "@executorch_android_support//:%s/libc++_shared.so" % abi,
                # Its soname, by which programs that are linked with it look for it.
                "lib/libexecutorch_jni.so": "@executorch_mobile_libraries//:%s/libexecutorch.so" % abi,
                "lib/libfbjni.so": "@executorch_android_support//:%s/libfbjni.so" % abi,
                "license/react-native/LICENSE": "@executorch_android_support//:LICENSE",
            },
            substitutions = _substitutions(platform),
        )
    for platform, part in SLICES.items():
        if platform in replaced or not platform.startswith("ios_"):
            continue
        framework = "@executorch_mobile_libraries//:ExecutorchLib.xcframework/%s/ExecutorchLib.framework" % part
        _linked_repository(
            name = "executorch_runtime_" + platform,
            build_file = Label("//toolchains/runtime:ios.BUILD"),
            links = common | {"Frameworks/ExecutorchLib.framework": framework},
            substitutions = _substitutions(platform),
        )
