"""Makes what programs are linked with: start files and stubs of the system's libraries."""

def _run(rctx, command, environment = {}):
    """Runs a program; a failure is an error that shows what it said."""
    result = rctx.execute(command, environment = environment, timeout = 600)
    if result.return_code:
        fail("@%s: the C++ toolchain for %s cannot be built: %s exited with %d:\n%s%s" % (
            rctx.name,
            rctx.attr.platform,
            " ".join([str(c) for c in command[:3]]),
            result.return_code,
            result.stdout,
            result.stderr,
        ))

def _zig_environment():
    return {"ZIG_GLOBAL_CACHE_DIR": "cache", "ZIG_LOCAL_CACHE_DIR": "cache"}

def _compile(rctx, target, zig, source, output, options = []):
    """Compiles a C file that includes nothing."""
    _run(rctx, [
        zig,
        "clang",
        "--target=" + target.triple,
        "-c",
        "-O2",
        "-fPIC",
        "-fno-stack-protector",
        "-fno-asynchronous-unwind-tables",
        "-ffreestanding",
        "-o",
        output,
        str(source),
    ] + options)

def _compile_dso_handle(rctx, target, zig, sources):
    source = sources["elf/dso_handle.c"]
    _compile(rctx, target, zig, source, "lib/program.o")
    _compile(rctx, target, zig, source, "lib/shared.o", ["-DSHARED_LIBRARY"])

# Stub of glibc as zig names it to the name that -l finds it by.
_GLIBC = {
    "libc.so.6": "libc.so",
    "libdl.so.2": "libdl.so",
    "libld.so.2": "libld.so",
    "libm.so.6": "libm.so",
    "libpthread.so.0": "libpthread.so",
    "libresolv.so.2": "libresolv.so",
    "librt.so.1": "librt.so",
    "libutil.so.1": "libutil.so",
}

def make_linux_stubs(rctx, target, zig, sources):
    """glibc's start file and stubs, which zig makes for any version of glibc as it links a program.

    Args:
      rctx: repository context.
      target: row of TARGETS.
      zig: path of the program.
      sources: name to path of these rules' files.
    """
    rctx.file("empty.c", "int main(void) { return 0; }\n")
    _run(rctx, [
        zig,
        "build-exe",
        "-target",
        target.zig_target,
        "-lc",
        "-fPIE",
        "-fno-compiler-rt",
        "-fno-ubsan-rt",
        "-fstrip",
        "-OReleaseSmall",
        "--name",
        "empty",
        "-femit-bin=empty",
        "empty.c",
    ], _zig_environment())
    objects = {}
    for folder in rctx.path("cache/o").readdir():
        for file in folder.readdir():
            objects[file.basename] = file
    rctx.file("lib/folder.txt", "Stubs of glibc's libraries.\n")
    for name, library in _GLIBC.items() + [("Scrt1.o", "Scrt1.o")]:
        _run(rctx, ["cp", objects[name], "lib/" + library])

    # Names of the archive's members would be those of the cache.
    parts = [str(objects[name]) for name in sorted(objects) if name.endswith("-2.32.o")]
    for name in ("at_quick_exit.o", "atexit.o", "elf-init-2.33.o", "pthread_atfork.o", "stack_chk_fail_local.o"):
        parts.append(str(objects[name]))
    _run(rctx, [zig, "ar", "rcsD", "lib/libc_nonshared.a"] + parts)
    _compile_dso_handle(rctx, target, zig, sources)
    for leftover in ("cache", "empty", "empty.c"):
        rctx.delete(leftover)

def _symbols(rctx, path):
    lines = [line.strip() for line in rctx.read(path).split("\n")]
    return [line for line in lines if line and not line.startswith("#")]

# Those of bionic's symbols that are variables.
_VARIABLES = {
    "daylight": 4,
    "environ": 8,
    "optarg": 8,
    "opterr": 4,
    "optind": 4,
    "optopt": 4,
    "signgam": 4,
    "stderr": 8,
    "stdin": 8,
    "stdout": 8,
    "timezone": 8,
    "tzname": 16,
}

def _android_stub(rctx, target, zig, name, symbols):
    """A library that has nothing but its symbols, of version LIBC."""
    lines = [".text"]
    for symbol in symbols:
        if symbol in _VARIABLES:
            size = _VARIABLES[symbol]
            lines.append((".globl {0}\n.type {0},%object\n.size {0},{1}\n.data\n.balign 8\n{0}: .zero {1}\n" +
                          ".text").format(symbol, size))
        else:
            lines.append(".globl {0}\n.type {0},%function\n{0}: .byte 0".format(symbol))
    lines.append(".section .note.GNU-stack,\"\",%progbits")
    rctx.file("stub.s", "\n".join(lines) + "\n")
    rctx.file("stub.map", "LIBC { global: *; };\n")
    _run(rctx, [zig, "clang", "--target=" + target.triple, "-c", "-o", "stub.o", "stub.s"])
    _run(rctx, [
        zig,
        "ld.lld",
        "-shared",
        "-soname=%s.so" % name,
        "--version-script=stub.map",
        "-o",
        "lib/%s.so" % name,
        "stub.o",
    ])
    for leftover in ("stub.s", "stub.o", "stub.map"):
        rctx.delete(leftover)

# Zig's compiler_rt has functions of libc and libm, too, which would go before the system's.
_EXPORT = "pub inline fn symbol(comptime func: *const anyopaque, comptime name: []const u8) void {\n"
_EXPORT_BUILTINS = _EXPORT + """\
    const builtin_name = comptime std.mem.startsWith(u8, name, "__") or std.mem.endsWith(u8, name, "f128");
    if (!builtin_name) return;
"""
_STACK_PROTECTOR = "_ = @import(\"compiler_rt/ssp.zig\");"

def _make_compiler_rt(rctx, target, zig):
    """Builds what clang calls for what processors lack: long double, 128 bits, thread_local on old Androids."""
    library = zig.dirname.get_child("lib")
    text = rctx.read(library.get_child("compiler_rt.zig"))
    if _EXPORT not in text or _STACK_PROTECTOR not in text:
        fail("@%s: compiler_rt.zig is not the one that //toolchains/cc:stubs.bzl changes. Use the zig of these rules." % rctx.name)
    text = text.replace(_EXPORT, _EXPORT_BUILTINS).replace(_STACK_PROTECTOR, "")
    rctx.file("builtins/compiler_rt.zig", text, executable = False)
    rctx.symlink(library.get_child("compiler_rt"), "builtins/compiler_rt")
    _run(rctx, [
        zig,
        "build-obj",
        "-target",
        target.zig_target,
        "-fPIC",
        "-fstrip",
        "-ffunction-sections",
        "-fdata-sections",
        "-OReleaseSmall",
        "-femit-bin=compiler_rt.o",
        "builtins/compiler_rt.zig",
    ], _zig_environment())
    _run(rctx, [zig, "ar", "rcsD", "lib/libcompiler_rt.a", "compiler_rt.o"])
    for leftover in ("builtins", "cache", "compiler_rt.o"):
        rctx.delete(leftover)

def make_android_stubs(rctx, target, zig, sources):
    """A start file, stubs of bionic's libraries, what musl's headers call, and clang's run-time library.

    Args:
      rctx: repository context.
      target: row of TARGETS.
      zig: path of the program.
      sources: name to path of these rules' files.
    """
    rctx.file("lib/folder.txt", "Stubs of bionic's libraries.\n")
    for name in ("libc", "libdl", "liblog", "libm"):
        symbols = _symbols(rctx, sources["android/symbols/%s.txt" % name])
        _android_stub(rctx, target, zig, name, symbols)
    _compile(rctx, target, zig, sources["android/start.c"], "lib/start.o")
    _compile(rctx, target, zig, sources["android/libc.c"], "lib/libc_compat.o", ["-ffunction-sections"])
    _compile_dso_handle(rctx, target, zig, sources)
    _make_compiler_rt(rctx, target, zig)

_TBD = """\
--- !tapi-tbd
tbd-version: 4
targets: [ {platform} ]
install-name: '/usr/lib/libc++.1.dylib'
exports:
  - targets: [ {platform} ]
    symbols: [ {symbols} ]
...
"""

def make_apple_stubs(rctx, target, zig, sources):
    """Lists of what the system's C and C++ libraries export.

    Args:
      rctx: repository context.
      target: row of TARGETS.
      zig: path of the program.
      sources: name to path of these rules' files.
    """
    system = rctx.read(zig.dirname.get_child("lib/libc/darwin/libSystem.tbd"))

    # It is macOS's, of which iOS's C library differs in nothing that C++ programs of apps call.
    rctx.file("lib/libSystem.tbd", system.replace("arm64e-macos", target.tbd_platform), executable = False)
    symbols = ", ".join(["'%s'" % s for s in _symbols(rctx, sources["apple/libc++.symbols"])])
    rctx.file(
        "lib/libc++.tbd",
        _TBD.format(platform = target.tbd_platform, symbols = symbols),
        executable = False,
    )
