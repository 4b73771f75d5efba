"""Targets that stand for the runtime of the platform that is built for."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//toolchains/runtime:providers.bzl", "EtRuntimeInfo")
load("//toolchains/runtime:toolchain.bzl", "RUNTIME_TOOLCHAIN")

_OPTIONAL_RUNTIME = config_common.toolchain_type(RUNTIME_TOOLCHAIN, mandatory = False)

# A runtime where a test asks for an older version.
_OLDER = {"_older": attr.label(default = "@executorch_older_runtimes//:runtime")}

def _find(ctx):
    if EtRuntimeInfo in ctx.attr._older:
        return ctx.attr._older[EtRuntimeInfo]
    toolchain = ctx.toolchains[RUNTIME_TOOLCHAIN]
    if not toolchain:
        fail(("%s: no ExecuTorch runtime for this platform. Bundled runtimes are for the platforms in " +
              "@rules_executorch//toolchains/platforms. For others declare one with et_runtime_import or " +
              "et_runtime_toolchain, and register it.") % ctx.label)
    return toolchain.runtime

def _current_runtime_impl(ctx):
    return [_find(ctx)]

current_runtime = rule(
    implementation = _current_runtime_impl,
    attrs = _OLDER,
    doc = "EtRuntimeInfo of the platform.",
    provides = [EtRuntimeInfo],
    toolchains = [_OPTIONAL_RUNTIME],
)

def _current_runtime_headers_impl(ctx):
    runtime = _find(ctx)

    # The headers themselves don't say which version they are of.
    version = CcInfo(compilation_context = cc_common.create_compilation_context(
        defines = depset(["EXECUTORCH_RUNTIME_VERSION=\"%s\"" % runtime.executorch_version]),
    ))
    return [cc_common.merge_cc_infos(cc_infos = [runtime.headers, version])]

current_runtime_headers = rule(
    implementation = _current_runtime_headers_impl,
    attrs = _OLDER,
    doc = "Headers of the platform's runtime, for cc_library and cc_binary; defines " +
          "EXECUTORCH_RUNTIME_VERSION, a string.",
    provides = [CcInfo],
    toolchains = [_OPTIONAL_RUNTIME],
)

def _current_runtime_libraries_impl(ctx):
    runtime = _find(ctx)
    cc_toolchain = find_cc_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    listed = [runtime.core] + runtime.libraries + runtime.always
    if runtime.etdump:
        listed.append(runtime.etdump)
    all_libraries = depset(listed, transitive = [x.deps for x in listed]).to_list()
    to_link = []
    flags = []
    for library in all_libraries:
        if library.folder:
            linked = cc_common.create_library_to_link(
                actions = ctx.actions,
                cc_toolchain = cc_toolchain,
                feature_configuration = features,
                dynamic_library = library.file,
            )

            # What registers itself as it is loaded has no symbol that is called.
            if library.file.extension == "so":
                flags.append("-Wl,--push-state,--no-as-needed,-l:%s,--pop-state" % library.file.basename)
        else:
            linked = cc_common.create_library_to_link(
                actions = ctx.actions,
                alwayslink = True,
                cc_toolchain = cc_toolchain,
                feature_configuration = features,
                static_library = library.file,
            )
        to_link.append(linked)
    linking = cc_common.create_linking_context(linker_inputs = depset([
        cc_common.create_linker_input(
            owner = ctx.label,
            libraries = depset(to_link),
            user_link_flags = depset(flags),
        ),
    ]))
    return [cc_common.merge_cc_infos(cc_infos = [runtime.headers, CcInfo(linking_context = linking)])]

current_runtime_libraries = rule(
    implementation = _current_runtime_libraries_impl,
    attrs = _OLDER,
    doc = "All of the platform's runtime, for tools that may run any program.",
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = [_OPTIONAL_RUNTIME] + use_cc_toolchain(),
)
