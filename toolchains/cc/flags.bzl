"""Flags of clang and lld for each kind of platform.

All headers and libraries are named: nothing is taken from the machine. Programs are the same wherever they
are built, as no absolute path and no time gets into an object file.
"""

def _system(folders):
    """Flags for folders of headers whose warnings are none of the user's."""
    flags = []
    for folder in folders:
        flags += ["-isystem", folder]
    return flags

def _libc_folders(target, paths):
    """Folders of the C library's headers and of the kernel's."""
    root = paths.zig + "/lib/libc/include/"
    if target.family == "apple":
        return [root + "any-darwin-any"]
    libc = {
        "android": [target.machine + "-linux-musl", "generic-musl"],
        "linux": [target.kernel + "-linux-gnu", "generic-glibc"],
    }[target.family]
    return [root + folder for folder in libc + [target.kernel + "-linux-any", "any-linux-any"]]

def _own_folders(target, paths):
    """Folders of headers of ours that go before others of the same name."""
    return [] if target.family == "apple" else ["%s/%s/include" % (paths.own, target.family)]

def cxx_flags(target, paths):
    """Flags for C++ alone, which go before those for C, too.

    Args:
      target: row of TARGETS.
      paths: struct: folders.

    Returns:
      A list.
    """
    folders = _own_folders(target, paths)
    if target.family == "linux":
        root = paths.libstdcxx + "/usr/%s-linux-gnu/include/c++/12" % target.machine
        return ["-std=c++17", "-nostdinc++"] + _system(
            folders + [root, "%s/%s-linux-gnu" % (root, target.machine), root + "/backward"],
        )
    folders = folders + [paths.zig + "/lib/libcxx/include", paths.zig + "/lib/libcxxabi/include"]
    flags = ["-std=c++17", "-nostdinc++", "-include", "%s/%s/libcxx.h" % (paths.own, target.family)]

    # Unwinding needs a library that neither Android nor libc++_shared.so of its NDK promises.
    return flags + (["-fno-exceptions"] if target.family == "android" else []) + _system(folders)

def compile_flags(target, paths):
    """Flags for C, C++ and assembler.

    Args:
      target: row of TARGETS.
      paths: struct: folders.

    Returns:
      A list.
    """
    flags = [
        "--target=" + target.triple,
        "-no-canonical-prefixes",
        "-nostdinc",
        "-fPIC",
        "-fstack-protector",
        "-fno-omit-frame-pointer",
        "-ffile-compilation-dir=.",
        "-Wall",
        "-Wno-builtin-macro-redefined",
        "-D__DATE__=\"redacted\"",
        "-D__TIMESTAMP__=\"redacted\"",
        "-D__TIME__=\"redacted\"",
    ]
    if target.family == "linux":
        flags.append("-D__GLIBC_MINOR__=28")
    if target.family != "apple" and target.cpu == "arm64":
        # Otherwise each atomic operation would be a call of a library that there is none of.
        flags.append("-mno-outline-atomics")
    folders = _own_folders(target, paths) + [paths.zig + "/lib/include"] + _libc_folders(target, paths)
    return flags + _system(folders)

def _elf(target, paths, more):
    """Flags of clang as the driver of lld, which takes the host's start files and libraries otherwise."""
    return [
        "--target=" + target.triple,
        "-no-canonical-prefixes",
        "-nostdlib",
        "--ld-path=%s/ld.lld" % paths.stub_folder.replace("/lib", "/bin"),
        "--sysroot=" + paths.stub_folder,
        "-L" + paths.stub_folder,
        "-Wl,--build-id=none",
        "-Wl,-z,relro,-z,now",
        "-Wl,--as-needed",
        # Libraries may need newer ones than the stubs tell of.
        "-Wl,--allow-shlib-undefined",
    ] + more + ["-Wl,--no-as-needed"]

def link_flags(target, paths):
    """Flags of links.

    Args:
      target: row of TARGETS.
      paths: struct: folders, and the stubs by name.

    Returns:
      A struct of lists: for programs, shared libraries, shared libraries of one target without what it
      depends on, programs and libraries, and both in the mode opt.
    """
    stubs = paths.stubs
    if target.family == "apple":
        return struct(
            program = [],
            shared = [],
            nodeps = ["-Wl,-undefined,dynamic_lookup"],
            all = ["-nostdlib", stubs["libSystem.tbd"], stubs["libc++.tbd"]],
            opt = ["-Wl,-dead_strip"],
        )
    opt = ["-Wl,--gc-sections", "-Wl,-s"]
    if target.family == "android":
        libraries = ["libc.so", "libm.so", "libdl.so", "liblog.so", "libcompiler_rt.a"]
        return struct(
            program = ["-pie", stubs["start.o"], stubs["program.o"]],
            shared = [stubs["shared.o"]],
            nodeps = [],
            all = _elf(
                target,
                paths,
                # In all modes: compiler_rt is one object, which calls much of libm.
                ["-Wl,-z,max-page-size=16384", "-Wl,--gc-sections", stubs["libc_compat.o"]] +
                [stubs[name] for name in libraries],
            ),
            opt = opt,
        )
    root = paths.libstdcxx + "/usr"
    libraries = [
        "libm.so",
        "libc.so",
        "libpthread.so",
        "libdl.so",
        "librt.so",
        "libld.so",
        "libc_nonshared.a",
    ]
    return struct(
        program = ["-pie", stubs["Scrt1.o"], stubs["program.o"]],
        shared = [stubs["shared.o"]],
        nodeps = [],
        all = _elf(target, paths, [
            "%s/%s-linux-gnu/lib/libstdc++.so.6" % (root, target.machine),
            "%s/%s-linux-gnu/lib/libgcc_s.so.1" % (root, target.machine),
            "%s/lib/gcc-cross/%s-linux-gnu/12/libgcc.a" % (root, target.machine),
        ] + [stubs[name] for name in libraries]),
        opt = opt,
    )
