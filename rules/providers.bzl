"""What the rules hand to each other. Fields are part of the public interface."""

EtModelInfo = provider(
    doc = "A model: code and weights, without a recipe. Made by `et_model` and `et_exported_program`.",
    fields = {
        "label": "Label of the model.",
        "entry_point": "String \"module:function\"; empty where the model is given as .pt2 files.",
        "args": "Dict of strings, for `ModelContext.args`.",
        "exported": "List of struct(method, file): .pt2 files by method; empty for code.",
        "programs": "File (tree artifact): what `et_exported_program` made of `original`; None: nothing.",
        "original": "EtModelInfo that `programs` were exported from, with which tests compare; None: itself.",
        "adapter": "struct(files, rest, entry_point) where values of an adapter may change without a lowering: " +
                   "Files of `data` with the values, depset of all others, String; None: there is none.",
        "stand_ins": "List of struct(file, stand_in): Files that take the places of files in `data`.",
        "methods": "List of strings: methods of `original` that `programs` has; empty: all.",
        "sources": "Depset of Files that the model's code may import or find beside itself.",
        "roots": "List of strings: import roots as runfiles paths (\"_main\", \"repo/folder\").",
        "data": "Depset of Files that the model's code asks for with `ModelContext.file`.",
        "packages": "List of EtPackagesInfo that the model's code imports.",
        "memory_mb": "Int: expected peak of a lowering in MiB; 0: estimated.",
    },
)

EtBackendInfo = provider(
    doc = "A backend that programs delegate to. Made by `et_backend`.",
    fields = {
        "label": "Label of the backend.",
        "id": "String: the name that a runtime registers it under (\"XnnpackBackend\"); empty: " +
              "ExecuTorch's own kernels.",
        "packages": "List of EtPackagesInfo that lowering for it takes.",
    },
)

EtPackagesInfo = provider(
    doc = "Python packages, programs or an SDK that a backend needs. Made by `et_packages`.",
    fields = {
        "label": "Label of the target.",
        "holder": "FilesToRunProvider: does nothing, and has the files as runfiles.",
        "files": "Depset of Files.",
        "stamp": "File whose contents change with the packages.",
        "stamp_path": "String: runfiles path of the stamp.",
        "roots": "List of strings: import roots, as runfiles paths.",
        "programs": "List of strings: folders for PATH, as runfiles paths.",
        "variables": "Dict of environment variable to runfiles path.",
        "missing": "String: why they can't be used; empty: they can.",
        "metadata_files": "Depset of Files: METADATA of each package.",
    },
)

EtRecipeInfo = provider(
    doc = "How a model is quantized, partitioned and lowered. Made by `et_recipe`.",
    fields = {
        "label": "Label of the recipe.",
        "backends": "Depset of EtBackendInfo that its programs may delegate to.",
        "option_types": "Dict of option name to type; None where the builder takes any.",
        "sources": "Depset of Files that its builders may import.",
        "roots": "List of strings: import roots as runfiles paths.",
        "data": "Depset of Files that its builders ask for.",
        "tree": "Struct, encodable as JSON: what the exporter builds the recipe from.",
        "lowering": "String: \"stock\" where it wants upstream's own functions, else \"fast\".",
    },
)

EtLoweredInfo = provider(
    doc = "A lowered program: tables, blobs and index in one directory.",
    fields = {
        "label": "Label of the target that was lowered.",
        "directory": "File (tree artifact): index.json, program.bin, blobs/<sha256>.",
        "facts": "File: seconds per stage, peak memory and accuracy (JSON); differs from run to run.",
        "model": "EtModelInfo that it was made from.",
        "recipe": "EtRecipeInfo that it was made with.",
        "methods": "List of strings: the methods asked for; empty: all.",
        "settings": "Struct: quantize (\"recipe\" or \"none\"), calibration (File or None).",
        "stand_ins": "List of struct(file, stand_in): the adapter's values in it are those of stand-ins.",
    },
)

EtSharedDataInfo = provider(
    doc = "Weights that programs share. Made by `et_shared_data`.",
    fields = {
        "label": "Label of the target.",
        "data": "File: the .ptd.",
        "index": "File: its keys with sha256, size, dtype, shape and names (JSON).",
        "lowered": "List of EtLoweredInfo that it was made from.",
    },
)

EtProgramInfo = provider(
    doc = "A linked program. Made by `et_program`.",
    fields = {
        "label": "Label of the program.",
        "program": "File: the .pte.",
        "manifest": "File: what must be there before the program is loaded (JSON): data files, " +
                    "keys and their sha256, whether XNNPACK's weight cache is safe.",
        "own_data": "File: the .ptd of its own weights, or None.",
        "own_index": "File: the index of that, or None.",
        "shared_data": "List of EtSharedDataInfo.",
        "summary": "File: what went where (JSON).",
        "report": "File: what the program consists of (JSON).",
        "data_files": "Depset of Files: the .ptd files that it may need at run time; the " +
                      "manifest says which of them it loads.",
        "lowered": "EtLoweredInfo that it was linked from.",
        "model": "EtModelInfo that it was made from.",
        "recipe": "EtRecipeInfo that it was made with.",
        "backends": "Depset of EtBackendInfo that it may delegate to.",
    },
)

EtExporterInfo = provider(
    doc = "The Python environment that lowers and links. Made by `et_exporter`.",
    fields = {
        "lowering_tool": "FilesToRunProvider: runs modules that need torch.",
        "linking_tool": "FilesToRunProvider: runs modules that don't.",
        "stamp": "File whose contents name the environment; part of a worker's key.",
        "interpreter": "File: the Python interpreter.",
        "python_files": "Depset of Files: what the interpreter needs, its standard library.",
        "packages": "Depset of Files: torch, executorch and what they need.",
        "package_roots": "List of strings: their import roots, as runfiles paths.",
        "light_packages": "Depset of Files: what tools without torch need; no more than `packages`.",
        "light_roots": "List of strings: their import roots, as runfiles paths.",
        "executorch_version": "String.",
        "torch_version": "String.",
        "metadata_files": "Depset of Files: METADATA of each package, for SBOMs.",
        "lowering": "String: \"fast\" or \"stock\": whether upstream's functions have faster stand-ins.",
    },
)

EtRuntimeLibraryInfo = provider(
    doc = "A library of an ExecuTorch runtime. Made by `et_runtime_library`.",
    fields = {
        "label": "Label of the library.",
        "file": "File: what is linked: .so, .dylib, .a, or the binary of a framework.",
        "place": "String: folder of an app that it goes to (\"lib\", \"Frameworks/X.framework\"); " +
                 "empty: it is linked in (static).",
        "resources": "List of Files that go to that folder with it.",
        "backends": "List of strings: names under which it registers backends.",
        "deps": "Depset of EtRuntimeLibraryInfo that it needs.",
        "purl": "String: the package that it comes from (\"pkg:pypi/executorch@1.5.1\"); empty: unknown.",
        "license": "String: that package's license as an SPDX expression; empty: unknown.",
    },
)

EtRuntimeInfo = provider(
    doc = "ExecuTorch's C++ runtime for one platform. Made by `et_runtime_toolchain`.",
    fields = {
        "label": "Label of the runtime.",
        "platform": "String: name of the platform (\"android_arm64\").",
        "executorch_version": "String: the version that it was built from.",
        "verified_exporters": "List of strings: newer versions of the exporter whose programs were " +
                              "run on it and found right.",
        "headers": "CcInfo: its headers.",
        "core": "EtRuntimeLibraryInfo of the library that loads and runs programs.",
        "etdump": "EtRuntimeLibraryInfo of the library that records events, or None.",
        "libraries": "List of EtRuntimeLibraryInfo: operators and backends, in order of preference.",
        "always": "List of EtRuntimeLibraryInfo that every app gets, needed or not.",
        "data_files": "Bool: whether it loads .ptd files.",
        "license_files": "Depset of Files.",
    },
)

EtAppInfo = provider(
    doc = "Binary, libraries, programs and data for one platform. Made by `et_runner_app`.",
    fields = {
        "label": "Label of the app.",
        "name": "String.",
        "platform": "String: name of the platform (\"android_arm64\").",
        "directory": "File (tree artifact): the app.",
        "archive": "File: the same as .tar.zst, or .zip for Apple's platforms.",
        "manifest": "File: what the app consists of (JSON), the same as in the directory.",
        "fit": "File: operators and backends that its programs use, and libraries that have them (JSON).",
        "programs": "List of EtProgramInfo.",
        "assets": "List of Files: the app's `data`.",
        "runtime": "EtRuntimeInfo.",
        "runtime_libraries": "Depset of Files: shared libraries that may be in the app.",
        "libraries": "List of EtRuntimeLibraryInfo that its own were chosen from.",
        "linked_packages": "Dict of purl to SPDX license expression: what its binary holds beside the runtime.",
        "jni_library": "File: the runner as a shared library for Android apps, or None.",
    },
)

EtAppPackageInfo = provider(
    doc = "Apps as what another system installs or builds with. Made by `et_android_apk`, `et_android_aar` " +
          "and `et_ios_xcframework`.",
    fields = {
        "label": "Label of the target.",
        "kind": "String: \"apk\", \"aar\" or \"swift_package\".",
        "file": "File: the package; a zip, whatever its name.",
        "apps": "List of EtAppInfo that it is made of.",
        "signing_key": "String: \"own\", \"debug\": the one that everybody has, or empty: it is not signed.",
    },
)

EtReleaseInfo = provider(
    doc = "Files that are given away together. Made by `et_release`.",
    fields = {
        "label": "Label of the release.",
        "files": "List of struct(path, file): all Files and their places in the release, the lists included.",
        "manifest": "File: what the release consists of (JSON).",
        "sbom": "File: its bill of materials (CycloneDX, JSON).",
        "checksums": "File: sha256 of all others, as `sha256sum -c` reads it.",
    },
)

EtAssetsInfo = provider(
    doc = "Programs and what they load, for an app that has a runtime. Made by `et_assets`.",
    fields = {
        "label": "Label of the target.",
        "files": "List of struct(path, file): Files and their places (\"data/foundation.ptd\").",
        "manifest": "File: programs, files, sizes and sha256 (JSON).",
        "programs": "List of EtProgramInfo.",
    },
)

EtAndroidToolsInfo = provider(
    doc = "Programs of an Android SDK. Made by `et_android_tools`.",
    fields = {
        "aapt2": "FilesToRunProvider: packs the manifest.",
        "android_jar": "File: the API to compile against, with its resources.",
        "apksigner": "FilesToRunProvider: signs and verifies.",
        "d8": "FilesToRunProvider: makes .dex files out of classes.",
        "java_compiler": "FilesToRunProvider: takes javac's options.",
    },
)
