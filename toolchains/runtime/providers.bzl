"""Providers of runtimes and their libraries."""

# A header of every ExecuTorch, which says where headers are, and which programs the runtime reads.
PROGRAM_HEADER = "/executorch/runtime/executor/program.h"

EtRuntimeInfo = provider(
    doc = "ExecuTorch's C++ runtime for one platform. Created by `et_runtime_toolchain`.",
    fields = {
        "label": "Label of the runtime.",
        "platform": "String: name of the platform (\"android_arm64\").",
        "executorch_version": "String: the version that it was built from.",
        "verified_exporters": "List of strings: newer versions of the exporter whose programs were " +
                              "verified on it.",
        "headers": "CcInfo: its headers.",
        "core": "EtRuntimeLibraryInfo of the library that loads and runs programs.",
        "etdump": "EtRuntimeLibraryInfo of the library that records events, or None.",
        "libraries": "List of EtRuntimeLibraryInfo: operators and backends, in order of preference.",
        "always": "List of EtRuntimeLibraryInfo that every app gets, needed or not.",
        "data_files": "Bool: whether it loads .ptd files.",
        "license_files": "Depset of Files.",
    },
)

EtRuntimeLibraryInfo = provider(
    doc = "A library of an ExecuTorch runtime. Created by `et_runtime_library`.",
    fields = {
        "label": "Label of the library.",
        "file": "File: what is linked: .so, .dylib, .a, or the binary of a framework.",
        "folder": "String: folder of an app that it goes to (\"lib\", \"Frameworks/X.framework\"); " +
                  "empty: it is linked in (static).",
        "resources": "List of Files that go to that folder with it.",
        "backends": "List of strings: names under which it registers backends.",
        "registered": "File: the operators and backends that it registers, as read from it: a line each.",
        "deps": "Depset of EtRuntimeLibraryInfo that it needs.",
        "purl": "String: the package that it comes from (\"pkg:pypi/executorch@1.5.1\"); empty: unknown.",
        "license": "String: that package's license as an SPDX expression; empty: unknown.",
    },
)
