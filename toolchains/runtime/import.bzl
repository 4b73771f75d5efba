"""et_runtime_import: a runtime of your own: a CMake install prefix, an AAR, or xcframeworks."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/runtime:import_names.bzl", "ABIS", "SLICES", "backend_of", "is_core", "library_name", "role_of")
load("//toolchains/runtime:providers.bzl", "EtRuntimeInfo", "EtRuntimeLibraryInfo", "PROGRAM_HEADER")
load("//toolchains/runtime:registered.bzl", "read_registered")

_PORTABLE_TYPES = "/executorch/runtime/core/portable_type/c10"
_DEFINES = ["C10_USING_CUSTOM_GENERATED_MACROS"]

def _et_runtime_import_impl(ctx):
    given = [n for n in ("prefix", "aars", "xcframeworks") if getattr(ctx.attr, n)]
    if len(given) != 1:
        fail("%s: got %s, expected one of prefix, aars and xcframeworks." %
             (ctx.label, " and ".join(given) or "no library"))
    if given[0] == "prefix":
        files = [struct(file = f, folder = "lib", resources = []) for f in _prefix_libraries(ctx)]
    elif given[0] == "aars":
        files = [struct(file = f, folder = "lib", resources = []) for f in _aar_libraries(ctx)]
    else:
        files = _xcframework_libraries(ctx)
    libraries = _sorted_by_role(ctx, files)
    info = EtRuntimeInfo(
        label = ctx.label,
        platform = ctx.attr.platform,
        executorch_version = ctx.attr.executorch_version,
        verified_exporters = ctx.attr.verified_exporters,
        headers = _headers(ctx),
        core = libraries.core,
        etdump = libraries.etdump,
        libraries = libraries.choice,
        always = libraries.always,
        data_files = ctx.attr.data_files,
        license_files = depset(ctx.files.license_files),
    )
    return [platform_common.ToolchainInfo(runtime = info), info]

def _prefix_libraries(ctx):
    libraries = [
        f
        for f in ctx.files.prefix
        if f.extension in ("a", "so", "dylib") and f.dirname.rsplit("/", 1)[-1] in ("lib", "lib64")
    ]
    if not libraries:
        fail(("%s: prefix: no lib/*.a, lib/*.so or lib/*.dylib found. Give all files of the folder that " +
              "cmake --install wrote: prefix = glob([\"executorch/**\"]).") % ctx.label)
    return libraries

def _aar_libraries(ctx):
    abi = ABIS.get(ctx.attr.platform)
    if not abi:
        fail("%s: platform of an AAR: got \"%s\", expected one of %s." %
             (ctx.label, ctx.attr.platform, ", ".join(ABIS)))
    libraries = []
    for name in [ctx.attr.aar_core] + ctx.attr.aar_libraries:
        library = ctx.actions.declare_file("%s.libraries/%s" % (ctx.label.name, name))
        args = ctx.actions.args()
        args.add("--label", ctx.label)
        args.add_all(ctx.files.aars, before_each = "--archive")
        args.add("--member", "jni/%s/%s" % (abi, name))
        args.add("--output", library)
        linker_action(
            ctx,
            module = "etbundle.extract",
            arguments = args,
            inputs = ctx.files.aars,
            outputs = [library],
            mnemonic = "EtExtract",
            progress_message = "Unpacking %{output}",
        )
        libraries.append(library)
    return libraries

def _xcframework_libraries(ctx):
    slice = SLICES.get(ctx.attr.platform)
    if not slice:
        fail("%s: platform of an xcframework: got \"%s\", expected one of %s." %
             (ctx.label, ctx.attr.platform, ", ".join(SLICES)))
    libraries = []
    frameworks = {}
    slices = {}
    for file in ctx.files.xcframeworks:
        parts = file.path.split(".xcframework/")
        if len(parts) != 2:
            fail("%s: xcframeworks: got %s, expected files in folders that end in .xcframework." % (ctx.label, file.path))
        inside = parts[1].split("/")
        if len(inside) == 1:
            continue
        slices[inside[0]] = True
        if inside[0] != slice:
            continue
        if len(inside) == 2 and file.extension in ("a", "dylib"):
            libraries.append(struct(file = file, folder = "lib", resources = []))
        elif inside[1].endswith(".framework"):
            frameworks.setdefault(inside[1], []).append(file)
    for framework, files in frameworks.items():
        name = framework.removesuffix(".framework")
        binaries = [f for f in files if f.path.endswith("/%s/%s" % (framework, name))]
        if not binaries:
            fail("%s: xcframeworks: %s: binary \"%s\" not found." % (ctx.label, framework, name))
        libraries.append(struct(
            file = binaries[0],
            folder = "Frameworks/" + framework,
            resources = [f for f in files if f != binaries[0]],
        ))
    if not libraries:
        fail("%s: xcframeworks: no library for %s (folder \"%s\") found. Available: %s." %
             (ctx.label, ctx.attr.platform, slice, ", ".join(sorted(slices))))
    return libraries

def _sorted_by_role(ctx, files):
    """The core, what is chosen from, and what goes into every app, out of libraries' names."""
    cores = [f for f in files if is_core(f.file.basename, ctx.attr.aar_core if ctx.attr.aars else "")]
    if not cores:
        fail(("%s: no library that runs programs (libexecutorch, ExecutorchLib) found. Available: %s.") %
             (ctx.label, ", ".join([f.file.basename for f in files])))
    names = [f.file.basename for f in files]
    unknown = [n for n in ctx.attr.backends if n not in names]
    if unknown:
        fail("%s: backends: %s not found. Available: %s." %
             (ctx.label, ", ".join(unknown), ", ".join(sorted(names))))
    plain = [
        _library(ctx, f, [], [])
        for f in files
        if f != cores[0] and _role(ctx, f) == "plain"
    ]
    core = _library(ctx, cores[0], _backends(ctx, cores[0]), plain)
    chosen = {"etdump": [], "operators": [], "backend": []}
    for file in files:
        role = _role(ctx, file)
        if file != cores[0] and role in chosen:
            chosen[role].append(_library(ctx, file, _backends(ctx, file), [core] + plain))
    return struct(
        core = core,
        etdump = chosen["etdump"][0] if chosen["etdump"] else None,
        choice = chosen["operators"] + chosen["backend"],
        always = [library for library in plain if library.folder],
    )

def _role(ctx, file):
    if file.file.basename in ctx.attr.backends:
        return "backend"
    return role_of(file.file.basename)

def _backends(ctx, file):
    name = file.file.basename
    if name in ctx.attr.backends:
        return ctx.attr.backends[name]
    known = backend_of(name)
    return [known] if known else []

def _library(ctx, file, backends, deps):
    static = file.file.extension == "a"
    label = ctx.label.same_package_label("%s.%s" % (ctx.label.name, library_name(file.file.basename)))
    return EtRuntimeLibraryInfo(
        label = label,
        file = file.file,
        folder = "" if static else file.folder,
        # In a depset nothing may be changed any more.
        resources = tuple(file.resources),
        backends = tuple(backends),
        registered = read_registered(ctx, label = label, name = label.name, files = [file.file], backends = backends),
        deps = depset(deps, transitive = [d.deps for d in deps], order = "topological"),
        purl = ctx.attr.purl,
        license = ctx.attr.license,
    )

def _headers(ctx):
    if ctx.attr.headers:
        return ctx.attr.headers[CcInfo]
    roots = [f.path.removesuffix(PROGRAM_HEADER) for f in ctx.files.prefix if f.path.endswith(PROGRAM_HEADER)]
    if not roots:
        fail(("%s: include%s not found. Give the headers of the same version as a cc_library: " +
              "headers = \"…\".") % (ctx.label, PROGRAM_HEADER))
    context = cc_common.create_compilation_context(
        defines = depset(_DEFINES),
        headers = depset([f for f in ctx.files.prefix if f.path.startswith(roots[0] + "/")]),
        system_includes = depset([roots[0], roots[0] + _PORTABLE_TYPES]),
    )
    return CcInfo(compilation_context = context)

et_runtime_import = rule(
    implementation = _et_runtime_import_impl,
    doc = """A runtime of your own, for a `toolchain` of the type
`@rules_executorch//toolchains/runtime:toolchain_type`.

From the output of `cmake --install`, static or shared:

```starlark
et_runtime_import(
    name = "runtime",
    executorch_version = "1.5.1",
    platform = "linux_arm64",
    prefix = glob(["executorch/**"]),
)
```

From AARs, with the C++ headers of their version, which AARs lack:

```starlark
et_runtime_import(
    name = "runtime",
    aar_core = "libexecutorch.so",
    aar_libraries = ["libfbjni.so", "libc++_shared.so"],
    aars = ["executorch-android.aar", "fbjni.aar"],
    executorch_version = "1.5.1",
    headers = ":headers",
    platform = "android_arm64",
)
```

From XCFrameworks, with dynamic frameworks, or with static libraries as in ExecuTorch's Swift package:

```starlark
et_runtime_import(
    name = "runtime",
    executorch_version = "1.5.1",
    headers = ":headers",
    platform = "ios_arm64",
    xcframeworks = glob(["executorch.xcframework/**", "backend_coreml.xcframework/**"]),
)
```

The import recognizes libraries by the names that ExecuTorch's build gives them; `backends` adds others. An app
links a static library as a whole if it registers an operator or a backend that its programs use.
""",
    attrs = {
        "aar_core": attr.string(
            default = "libexecutorch.so",
            doc = "Library in the AARs that runs programs.",
        ),
        "aar_libraries": attr.string_list(
            default = ["libfbjni.so", "libc++_shared.so"],
            doc = "Further libraries in the AARs that it needs.",
        ),
        "aars": attr.label_list(
            allow_files = [".aar"],
            doc = "AARs; each library comes from the first one that has it.",
        ),
        "backends": attr.string_list_dict(
            doc = "File name of a library to the names of the backends that it registers, if its name does " +
                  "not say so.",
        ),
        "data_files": attr.bool(default = True, doc = "True: the library loads .ptd files."),
        "executorch_version": attr.string(
            mandatory = True,
            doc = "The version that it was built from, e.g. \"1.5.1\".",
        ),
        "headers": attr.label(
            providers = [CcInfo],
            doc = "A cc_library with the headers; default: those in the prefix.",
        ),
        "license": attr.string(
            doc = "SPDX expression of that package's license, e.g. \"BSD-3-Clause\".",
        ),
        "license_files": attr.label_list(allow_files = True, doc = "License files, copied into every app."),
        "platform": attr.string(
            mandatory = True,
            doc = "Name of the platform, as in @rules_executorch//toolchains/platforms.",
        ),
        "prefix": attr.label_list(
            allow_files = True,
            doc = "All files of a CMake install prefix.",
        ),
        "purl": attr.string(
            doc = "Package that the libraries come from, for SBOMs, as a package URL: " +
                  "\"pkg:github/pytorch/executorch@v1.5.1\".",
        ),
        "verified_exporters": attr.string_list(
            doc = "Newer versions of the exporter whose programs were verified on it.",
        ),
        "xcframeworks": attr.label_list(
            allow_files = True,
            doc = "All files of xcframeworks.",
        ),
    },
    provides = [EtRuntimeInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)
