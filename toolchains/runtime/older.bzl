"""Older runtimes: ExecuTorch's own wheels of earlier versions, on which tests run the programs of this one.

Since 1.5.0 a wheel has C++ libraries. Before that, it has a Python module whose file exports the same C++ API and holds
kernels and XNNPACK; the runner is linked with that file. So one program measures all versions alike, and no tensor passes
through torch, whose layout of tensors changes with each version. What the module takes of torch are C functions (BLAS,
cpuinfo, pthreadpool) of the exporter's torch; `python_names` has what it looks for in Python. Before 1.3.0, wheels lack the
headers of that API.

A version is a repository of its own. Only what `runtimes` of a test names is fetched: `@executorch_older_runtimes` has
an alias that chooses by the flag `older_version`, which a transition sets.
"""

load("//toolchains/exporter:package_files.bzl", "package_files")
load("//toolchains/exporter:text_files.bzl", "text_files")
load("//toolchains/runtime:verified.bzl", "VERIFIED_EXPORTERS")

# Version to the sha256 of its wheel for CPython 3.11 and manylinux_2_28_x86_64.
OLDER_RUNTIMES = {
    "1.3.1": "ca69888e7281445c3fe830b259f5e80da4d7116d91fe8d4afb82c0f94ab77238",
    "1.4.0": "d9942c7d4b135308590eef4a30b22d8fa3aaf6235a9b304ac9209d90ada14e20",
    "1.4.1": "92624b57111109bb6e470c145fd0e73de66549b0fcb04cfca4e55ecd8bfe3007",
    "1.5.0": "970d9ec9fc7fb7e30ece5b942b16ddc84372353af94ebf69d94687153ac8ab67",
    "1.5.1": "274c28c2fe2b76acb03f9fa381537425c40e0098dcf886baf6d97a1a55ffe300",
}

# The first version whose wheel has the headers of the whole C++ API, and the first with C++ libraries.
_WITH_HEADERS = [1, 3]
_WITH_LIBRARIES = [1, 5]

_MODULE = "_portable_lib.cpython-311-x86_64-linux-gnu.so"
_SCHEMAS = {
    "schema/program.fbs": "executorch/exir/_serialize/program.fbs",
    "schema/scalar_type.fbs": "executorch/exir/_serialize/scalar_type.fbs",
    "schema/xnnpack.fbs": "executorch/backends/xnnpack/serialization/runtime_schema.fbs",
}

def _major_and_minor(version):
    return [int(part) for part in version.split(".")[:2] if part.isdigit()]

def has_libraries(version):
    """Returns whether a version's wheels have C++ libraries, as a runtime needs them.

    Args:
      version: string: ExecuTorch's.
    """
    return _major_and_minor(version) >= _WITH_LIBRARIES

def check_older_version(version):
    """The numbers of a tag's version, whose wheel tests can run.

    Args:
      version: string: of the tag.

    Returns:
      List of two ints.
    """
    numbers = _major_and_minor(version)
    if len(version.split(".")) < 3 or len(numbers) != 2:
        fail("executorch.older_runtime(executorch_version = \"%s\"): got no version, expected one such as \"1.4.0\". Correct it." %
             version)
    if numbers < _WITH_HEADERS:
        fail(("executorch.older_runtime(executorch_version = \"%s\"): got a version before 1.3.0, expected a later one: " +
              "older wheels lack the C++ headers that a test compiles with. Remove the tag.") % version)
    return numbers

def _repository_name(version):
    return "executorch_older_" + version.replace(".", "_")

def _older_runtime_repository(version, sha256, urls):
    numbers = check_older_version(version)
    folders = {
        "include": "executorch/include",
        "license/executorch": "executorch-%s.dist-info/licenses" % version,
    } | _SCHEMAS
    if numbers < _WITH_LIBRARIES:
        build_file = Label("//toolchains/runtime:older_wheel.BUILD")
        folders |= {
            "lib/" + _MODULE: "executorch/extension/pybindings/" + _MODULE,
            "lib/libcustom_ops_aot_lib.so": "executorch/extension/llm/custom_ops/libcustom_ops_aot_lib.so",
            "lib/libqnn_executorch_backend.so": "executorch/backends/qualcomm/libqnn_executorch_backend.so",
            "lib/libquantized_ops_aot_lib.so": "executorch/kernels/quantized/libquantized_ops_aot_lib.so",
        }
    else:
        build_file = Label("//toolchains/runtime:wheel.BUILD")
        folders["lib"] = "executorch/lib"
    package_files(
        name = _repository_name(version),
        build_file = build_file,
        files = folders,
        platform = "manylinux_2_28_x86_64",
        package = "executorch==" + version,
        sha256 = sha256,
        substitutions = {
            "%{executorch_version}": version,
            "%{platform}": "linux_x86_64",
            "%{verified_exporters}": str(VERIFIED_EXPORTERS.get(version, [])),
        },
        urls = urls,
    )

_HUB = """load("%s", "older_versions")

package(default_visibility = ["//visibility:public"])

older_versions(
    name = "versions",
    versions = %s,
)

filegroup(name = "none")
""" % (Label("//toolchains/runtime:older_versions.bzl"), "%s")

_SETTING = """
config_setting(
    name = "is_%s",
    flag_values = {"%s": "%s"},
)
"""

_CHOICE = """
alias(
    name = "%s",
    actual = select({
%s        "//conditions:default": ":none",
    }),
)
"""

def _hub_build_file(repositories):
    """Aliases that choose a version's repository by the flag `older_version`."""
    flag = Label("//toolchains/runtime:older_version")
    build = _HUB % repr(sorted(repositories))
    for version in sorted(repositories):
        build += _SETTING % (version, flag, version)
    for target in ("runtime", "schema"):
        choices = ["        \":is_%s\": \"@%s//:%s\",\n" % (v, repositories[v], target) for v in sorted(repositories)]
        build += _CHOICE % (target, "".join(choices))
    return build

def older_runtime_repositories(tags):
    """The repositories of older runtimes, and `@executorch_older_runtimes`.

    Args:
      tags: dict of version to tag: of the root module, in addition to the bundled ones or in place of them.
    """
    for version, sha256 in OLDER_RUNTIMES.items():
        if version not in tags:
            _older_runtime_repository(version, sha256, [])
    for version, tag in tags.items():
        _older_runtime_repository(version, tag.sha256, tag.urls)
    repositories = {version: _repository_name(version) for version in OLDER_RUNTIMES | tags}
    text_files(name = "executorch_older_runtimes", files = {"BUILD.bazel": _hub_build_file(repositories)})
