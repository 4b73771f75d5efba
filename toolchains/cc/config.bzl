"""cc_toolchain_config: how clang and lld are called for a platform."""

load("@rules_cc//cc:action_names.bzl", "ACTION_NAMES")
load(
    "@rules_cc//cc:cc_toolchain_config_lib.bzl",
    "feature",
    "flag_group",
    "flag_set",
    "tool_path",
    "variable_with_value",
    "with_feature_set",
)
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/toolchains:cc_toolchain_config_info.bzl", "CcToolchainConfigInfo")
load("//toolchains/cc:flags.bzl", "compile_flags", "cxx_flags", "link_flags")
load("//toolchains/cc:targets.bzl", "TARGETS")

_CXX = [
    ACTION_NAMES.cpp_compile,
    ACTION_NAMES.cpp_header_parsing,
    ACTION_NAMES.cpp_module_codegen,
    ACTION_NAMES.cpp_module_compile,
    ACTION_NAMES.linkstamp_compile,
]
_COMPILE = _CXX + [
    ACTION_NAMES.assemble,
    ACTION_NAMES.c_compile,
    ACTION_NAMES.preprocess_assemble,
]
_PROGRAM = [ACTION_NAMES.cpp_link_executable]
_NODEPS = [ACTION_NAMES.cpp_link_nodeps_dynamic_library]
_SHARED = [ACTION_NAMES.cpp_link_dynamic_library] + _NODEPS

def _flags(actions, flags, mode = None):
    """Flags of actions, in one compilation mode or all of them."""
    return flag_set(
        actions = actions,
        flag_groups = [flag_group(flags = flags)] if flags else [],
        with_features = [with_feature_set(features = [mode])] if mode else [],
    )

def _features(target, paths):
    compile = compile_flags(target, paths)
    link = link_flags(target, paths)
    return [
        feature(name = "dbg"),
        feature(name = "fastbuild"),
        feature(name = "opt"),
        feature(name = "supports_dynamic_linker", enabled = True),
        feature(name = "supports_pic", enabled = True),
        feature(
            name = "default_compile_flags",
            enabled = True,
            flag_sets = [
                _flags(_CXX, cxx_flags(target, paths)),
                _flags(_COMPILE, compile),
                _flags(_COMPILE, ["-g"], "dbg"),
                _flags(_COMPILE, ["-g0", "-O2", "-DNDEBUG", "-ffunction-sections", "-fdata-sections"], "opt"),
            ],
        ),
        feature(
            name = "default_link_flags",
            enabled = True,
            flag_sets = [
                _flags(_PROGRAM, link.program),
                _flags(_SHARED, link.shared),
                _flags(_NODEPS, link.nodeps),
                _flags(_PROGRAM + _SHARED, link.all),
                _flags(_PROGRAM + _SHARED, link.opt, "opt"),
            ],
        ),
        feature(
            name = "archiver_flags",
            enabled = True,
            flag_sets = [
                flag_set(
                    actions = [ACTION_NAMES.cpp_link_static_library],
                    flag_groups = [
                        flag_group(flags = ["rcsD", "%{output_execpath}"]),
                        flag_group(
                            expand_if_available = "libraries_to_link",
                            flag_groups = [
                                flag_group(
                                    expand_if_equal = variable_with_value("libraries_to_link.type", kind),
                                    flags = ["%{libraries_to_link.name}"],
                                )
                                for kind in ("object_file", "static_library")
                            ] + [
                                flag_group(
                                    expand_if_equal = variable_with_value("libraries_to_link.type", "object_file_group"),
                                    flags = ["%{libraries_to_link.object_files}"],
                                    iterate_over = "libraries_to_link.object_files",
                                ),
                            ],
                            iterate_over = "libraries_to_link",
                        ),
                    ],
                ),
            ],
        ),
    ]

_TOOLS = {
    "ar": "ar",
    "cpp": "cc",
    "dwp": "none",
    "gcc": "cc",
    "gcov": "none",
    "ld": "ld.lld",
    "nm": "none",
    "objcopy": "none",
    "objdump": "none",
    "strip": "strip",
}

def _cc_toolchain_config_impl(ctx):
    target = TARGETS[ctx.attr.platform]
    paths = struct(
        libstdcxx = ctx.file.libstdcxx.dirname if ctx.file.libstdcxx else "",
        own = ctx.file._own.dirname,
        stubs = {file.basename: file.path for file in ctx.files.stubs},
        stub_folder = ctx.files.stubs[0].dirname,
        zig = ctx.file._zig.dirname,
    )
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        abi_libc_version = "local",
        abi_version = "local",
        compiler = "clang",
        features = _features(target, paths),
        host_system_name = "local",
        # Bazel's own flags are of two kinds, and this tells which.
        target_libc = "macosx" if target.family == "apple" else target.family,
        target_cpu = target.cpu,
        target_system_name = target.triple,
        tool_paths = [
            tool_path(name = name, path = "bin/" + program)
            for name, program in _TOOLS.items()
        ],
        toolchain_identifier = "executorch_" + ctx.attr.platform,
    )

cc_toolchain_config = rule(
    implementation = _cc_toolchain_config_impl,
    doc = "Flags of the compiler and the linker for a platform.",
    attrs = {
        "libstdcxx": attr.label(
            allow_single_file = True,
            doc = "A file in the folder of Linux's C++ library.",
        ),
        "platform": attr.string(
            doc = "Name of the platform.",
            mandatory = True,
            values = TARGETS.keys(),
        ),
        "stubs": attr.label_list(
            allow_files = True,
            doc = "Start files and stubs of the system's libraries.",
        ),
        "_own": attr.label(
            allow_single_file = True,
            default = "//toolchains/cc:flags.bzl",
        ),
        "_zig": attr.label(
            allow_single_file = True,
            default = "@executorch_zig//:zig",
        ),
    },
    provides = [CcToolchainConfigInfo],
)
