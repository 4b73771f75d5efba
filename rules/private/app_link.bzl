"""Links an app's binary with exactly the runtime's libraries that EtFit chose."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

# Where a binary finds its libraries, by their folder in the app; Mach-O has another word for "here".
_RPATHS = {
    "Frameworks": "@executable_path/Frameworks",
    "lib": "$ORIGIN/lib",
}
_APPLE_LIB_RPATH = "@loader_path/lib"

_HEADERS = ["h", "hpp"]

def compile_main(ctx, *, cc_toolchain, sources, infos):
    """Compiles a main() of the user's.

    Args:
      ctx: rule context with the fragment "cpp".
      cc_toolchain: CcToolchainInfo of the app's platform.
      sources: list of Files: its sources in C++ and C, and their headers; empty: there is none.
      infos: list of CcInfo whose headers it includes.

    Returns:
      CcCompilationOutputs for `link_app`, or None.
    """
    if not sources:
        return None
    headers = [file for file in sources if file.extension in _HEADERS]
    in_c = [file for file in sources if file.extension == "c"]
    in_cxx = [file for file in sources if file not in headers + in_c]
    outputs = []
    for name, srcs, flags in [("main", in_cxx, ["-std=c++17"]), ("main_c", in_c, [])]:
        if srcs:
            _, compiled = cc_common.compile(
                actions = ctx.actions,
                cc_toolchain = cc_toolchain,
                compilation_contexts = [info.compilation_context for info in infos],
                feature_configuration = _features(ctx, cc_toolchain),
                name = "%s_%s" % (ctx.label.name, name),
                private_hdrs = headers,
                srcs = srcs,
                user_compile_flags = flags,
            )
            outputs.append(compiled)
    return cc_common.merge_compilation_outputs(compilation_outputs = outputs)

def link_app(ctx, *, cc_toolchain, mains, runtime, fitted, name, compiled = None, shared = False, install_name = None):
    """Links.

    Args:
      ctx: rule context with the fragment "cpp".
      cc_toolchain: CcToolchainInfo of the app's platform.
      mains: list of CcInfo that are linked: main() and what it needs.
      runtime: EtRuntimeInfo.
      fitted: what `fit` returned.
      name: of the output, relative to the package.
      compiled: what `compile_main` returned.
      shared: whether to link a shared library instead of an executable.
      install_name: Mach-O's name of a shared library, by which others load it; None: the default.

    Returns:
      File.
    """
    link_flags = fitted.link_flags
    linked = cc_common.link(
        actions = ctx.actions,
        additional_inputs = fitted.linked + [link_flags],
        cc_toolchain = cc_toolchain,
        compilation_outputs = compiled,
        feature_configuration = _features(ctx, cc_toolchain),
        linking_contexts = [main.linking_context for main in mains],
        name = name,
        output_type = "dynamic_library" if shared else "executable",
        user_link_flags = ["@" + link_flags.path] + _rpath_flags(runtime, shared) +
                          (["-Wl,-install_name," + install_name] if install_name else []),
    )
    if shared:
        library = linked.library_to_link
        return library.resolved_symlink_dynamic_library or library.dynamic_library
    return linked.executable

def _features(ctx, cc_toolchain):
    return cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        # The runtime's libraries lie in the app; what is built here is linked in.
        unsupported_features = ctx.disabled_features + ["parse_headers", "layering_check"],
    )

def _rpath_flags(runtime, shared):
    if shared:
        return []
    apple = runtime.platform.startswith("macos_") or runtime.platform.startswith("ios_")
    folders = {}
    for library in [runtime.core] + runtime.libraries:
        if library.folder:
            folders[library.folder.split("/")[0]] = True
    flags = []
    for folder in folders:
        rpath = _APPLE_LIB_RPATH if apple and folder == "lib" else _RPATHS.get(folder)
        if rpath:
            flags.append("-Wl,-rpath," + rpath)
    return flags

def cc_infos(targets):
    """CcInfo of each target."""
    return [target[CcInfo] for target in targets]
