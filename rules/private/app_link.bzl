"""Links an app's binary with exactly the runtime's libraries that EtFit chose."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

# Where a binary finds its libraries, by their folder in the app; Mach-O has another word for "here".
_RPATHS = {
    "Frameworks": "@executable_path/Frameworks",
    "lib": "$ORIGIN/lib",
}
_APPLE_LIB_RPATH = "@loader_path/lib"

def link_app(
        ctx,
        *,
        cc_toolchain,
        mains,
        sources,
        headers,
        runtime,
        fitted,
        name,
        shared = False,
        whole = False):
    """Compiles an own main, if any, and links.

    Args:
      ctx: rule context with the fragment "cpp".
      cc_toolchain: CcToolchainInfo of the app's platform.
      mains: list of CcInfo that are linked: main() and what it needs.
      sources: list of Files: C++ sources of an own main.
      headers: list of CcInfo that those are compiled with.
      runtime: EtRuntimeInfo.
      fitted: what `fit` returned.
      name: of the output, relative to the package.
      shared: whether a shared library is made, not an executable.
      whole: whether static libraries are linked with all that they register, used or not.

    Returns:
      File.
    """
    link_flags = fitted.whole_link_flags if whole else fitted.link_flags
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        # The runtime's libraries lie in the app; what is built here is linked in.
        unsupported_features = ctx.disabled_features + ["parse_headers", "layering_check"],
    )
    contexts = [main.linking_context for main in mains]
    outputs = None
    if sources:
        _, outputs = cc_common.compile(
            actions = ctx.actions,
            cc_toolchain = cc_toolchain,
            compilation_contexts = [h.compilation_context for h in headers + mains],
            feature_configuration = features,
            name = ctx.label.name + ("_whole" if whole else "") + "_main",
            srcs = sources,
            user_compile_flags = ["-std=c++17"],
        )
    linked = cc_common.link(
        actions = ctx.actions,
        additional_inputs = fitted.linked + [link_flags],
        cc_toolchain = cc_toolchain,
        compilation_outputs = outputs,
        feature_configuration = features,
        linking_contexts = contexts,
        name = name,
        output_type = "dynamic_library" if shared else "executable",
        user_link_flags = ["@" + link_flags.path] + _rpath_flags(runtime, shared),
    )
    if shared:
        library = linked.library_to_link
        return library.resolved_symlink_dynamic_library or library.dynamic_library
    return linked.executable

def _rpath_flags(runtime, shared):
    if shared:
        return []
    apple = runtime.platform.startswith("macos_") or runtime.platform.startswith("ios_")
    folders = {}
    for library in [runtime.core] + runtime.libraries:
        if library.place:
            folders[library.place.split("/")[0]] = True
    flags = []
    for folder in folders:
        rpath = _APPLE_LIB_RPATH if apple and folder == "lib" else _RPATHS.get(folder)
        if rpath:
            flags.append("-Wl,-rpath," + rpath)
    return flags

def cc_infos(targets):
    """CcInfo of each target."""
    return [target[CcInfo] for target in targets]
