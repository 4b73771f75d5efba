"""Providers of the rules. `//rules:providers.bzl` exports them."""

EtAppInfo = provider(
    doc = "Binary, libraries, programs and data for one platform. Created by `et_runner_app`.",
    fields = {
        "label": "Label of the app.",
        "name": "String.",
        "platform": "String: name of the platform (\"android_arm64\").",
        "directory": "File (tree artifact): the app.",
        "archive": "File: the same as .tar.zst, or .zip for Apple's platforms.",
        "manifest": "File: what the app consists of (JSON), the same as in the directory.",
        "fit": "File: operators and backends that its programs use, and libraries that have them (JSON).",
        "programs": "List of EtProgramInfo.",
        "variants": "List of EtVariantsInfo: those that programs of it are of.",
        "assets": "List of Files: the app's `data`.",
        "runtime": "EtRuntimeInfo.",
        "runtime_libraries": "Depset of Files: shared libraries that may be in the app.",
        "libraries": "List of EtRuntimeLibraryInfo that its own were chosen from.",
        "linked_packages": "Dict of purl to SPDX license expression: what its binary holds beside the runtime.",
        "etdump": "Bool: whether its runner can record events.",
        "api_library": "File: the C interface as a shared library for Android (with Java's functions) and iOS, or None.",
    },
)

EtAppPackageInfo = provider(
    doc = "Apps as a package for another system. Created by `et_android_apk`, `et_android_aar` " +
          "and `et_ios_xcframework`.",
    fields = {
        "label": "Label of the target.",
        "kind": "String: \"apk\", \"aar\" or \"swift_package\".",
        "file": "File: the package; a zip, whatever its name.",
        "apps": "List of EtAppInfo in it.",
        "signing_key": "String: \"own\"; \"debug\": a public key; empty: it is not signed.",
    },
)

EtAssetsInfo = provider(
    doc = "Programs and what they load, for an app that has a runtime. Created by `et_assets`.",
    fields = {
        "label": "Label of the target.",
        "files": "List of struct(path, file): Files and their paths (\"data/foundation.ptd\").",
        "manifest": "File: programs, files, sizes and sha256 (JSON).",
        "programs": "List of EtProgramInfo.",
        "variants": "List of EtVariantsInfo: those that programs of it are of.",
    },
)

EtBackendInfo = provider(
    doc = "A backend that programs delegate to. Created by `et_backend`.",
    fields = {
        "label": "Label of the backend.",
        "id": "String: the name that a runtime registers it under (\"XnnpackBackend\"); empty: " +
              "ExecuTorch's own kernels.",
        "packages": "List of EtPackagesInfo that lowering for it takes.",
        "device_files": "List of strings: files that it opens on a device, and that no app has by itself.",
        "emulator": "List of EtPackagesInfo that run its programs where they are built; empty: `packages` do.",
        "is_emulated": "Bool: whether it has an emulator, which `emulator` lists only where a program is to run.",
        "not_emulated": "String: what methods share on the device, and what runs programs here refuses; empty: nothing, " +
                        "or this target is not analyzed for a run.",
    },
)

EtLoweredInfo = provider(
    doc = "A lowered program: tables, blobs and index in one directory.",
    fields = {
        "label": "Label of the target that was lowered.",
        "directory": "File (tree artifact): index.json, program.bin, blobs/<sha256>.",
        "measurements": "File: seconds per stage, peak memory and accuracy (JSON); differs from run to run.",
        "model": "EtModelInfo that it was lowered from.",
        "recipe": "EtRecipeInfo that it was lowered with.",
        "methods": "List of strings: the methods asked for; empty: all.",
        "settings": "Struct: quantize (\"recipe\", \"none\" or \"qat\"), trained_checkpoint and calibration (Files or None).",
        "adapter": "None; or, if the program contains placeholders instead of its adapter's values, " +
                   "struct(values, whole) of Files (tree artifacts): the values, and the program lowered with them.",
    },
)

EtModelInfo = provider(
    doc = "A model, without a recipe. Created by `et_model`.",
    fields = {
        "label": "Label of the model.",
        "entry_point": "String \"module:function\".",
        "files": "Depset of Files that a lowering of the model reads.",
        "lowerable": "The model as a lowering reads it. Private: it may change with any version.",
    },
)

EtProgramInfo = provider(
    doc = "A linked program. Created by `et_program`.",
    fields = {
        "label": "Label of the program.",
        "program": "File: the .pte.",
        "manifest": "File: what must be there before the program is loaded (JSON): files with keys and their " +
                    "sha256, and how XNNPACK's weights are packed.",
        "own_data": "File: the .ptd of its own weights, or None.",
        "shared_data": "List of EtSharedDataInfo.",
        "summary": "File: what went where (JSON).",
        "report": "File: what the program consists of (JSON).",
        "data_files": "Depset of Files: the .ptd files that it may need at run time; the " +
                      "manifest says which of them it loads.",
        "lowered": "EtLoweredInfo that it was linked from.",
        "model": "EtModelInfo that it was lowered from.",
        "recipe": "EtRecipeInfo that it was lowered with.",
        "backends": "Depset of EtBackendInfo that it may delegate to.",
    },
)

EtRecipeInfo = provider(
    doc = "Quantization, partitioning and lowering of a model. Created by `et_recipe`.",
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

EtReleaseInfo = provider(
    doc = "Files that are shipped together. Created by `et_release`.",
    fields = {
        "label": "Label of the release.",
        "files": "List of struct(path, file): all Files and their paths in the release, the lists included.",
        "manifest": "File: what the release consists of (JSON).",
        "sbom": "File: its bill of materials (CycloneDX, JSON).",
        "checksums": "File: sha256 of all others, as `sha256sum -c` reads it.",
    },
)

EtSharedDataInfo = provider(
    doc = "Weights that programs share. Created by `et_shared_data`.",
    fields = {
        "label": "Label of the target.",
        "data": "File: the .ptd.",
        "manifest": "File: its keys with sha256, size, dtype, shape and names (JSON).",
        "lowered": "List of EtLoweredInfo that its weights come from.",
    },
)

EtVariantsInfo = provider(
    doc = "Programs that stand for each other. Created by `et_variants`.",
    fields = {
        "label": "Label of the target.",
        "name": "String: what the chosen program is called in an app.",
        "choices": "List of struct(program, conditions), best first: EtProgramInfo; list of struct(fact, any_of, " +
                   "at_least, below): string, list of strings, two strings.",
        "table": "File: which device gets which program, and why (JSON).",
        "page": "File: the same to read (Markdown).",
    },
)
