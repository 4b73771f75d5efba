"""vendor_sdk: the packages of a backend whose compiler only its vendor gives."""

load("//toolchains/exporter:packages.bzl", "et_packages")

visibility("//backends/...")

def vendor_sdk(
        *,
        backend,
        present,
        sdk,
        example,
        name = "sdk",
        library_paths = [],
        missing = "",
        programs = [],
        python = False,
        variables = {}):
    """An et_packages with the SDK that the root module names, or with a message that it names none.

    The recipes' builders find the folder by vendor_sdk.py in //backends/vendor.

    Args:
      backend: name of the backend: the SDK's in `executorch.sdk(backend = …)`.
      present: PRESENT of `@executorch_sdk_<backend>//:sdk.bzl`.
      sdk: what the vendor calls it.
      example: a folder to show in the message.
      name: of the target.
      library_paths: folders of the SDK with shared libraries that programs open when they run.
      missing: sentence that a build fails with on this machine, whatever SDK is named; empty: none.
      programs: folders of the SDK that a lowering's PATH gets.
      python: whether Python packages are imported from the SDK's folder.
      variables: environment variables that upstream reads: name to folder in the SDK, "" for itself.
    """
    folders = {variable: "/".join(["sdk"] + ([folder] if folder else [])) for variable, folder in variables.items()}
    not_given = ("it compiles with %s, which these rules cannot fetch. Add executorch.sdk(backend = " +
                 "\"%s\", path = \"%s\"), or repository = \"@…\", to MODULE.bazel.") % (sdk, backend, example)
    et_packages(
        name = name,
        library_paths = ["sdk/" + folder for folder in library_paths],
        missing = missing or ("" if present else not_given),
        package_imports = ["sdk"] if python else [],
        packages = ["@executorch_sdk_%s//:files" % backend],
        programs = ["sdk/" + folder for folder in programs],
        stamp = "@executorch_sdk_%s//:sdk.json" % backend,
        variables = folders | {"EXECUTORCH_SDK_" + backend.upper(): "sdk"},
        visibility = ["//visibility:public"],
    )
