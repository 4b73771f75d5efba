"""target_repository: start files, stubs of the system's libraries and programs for one platform.

Zig makes such files by itself where it links a program, for seconds in each action. Here they are built
once, and actions call clang and lld directly, which keep no cache.
"""

load("//toolchains/cc:stubs.bzl", "make_android_stubs", "make_apple_stubs", "make_linux_stubs")
load("//toolchains/cc:targets.bzl", "TARGETS")

_SOURCES = [
    "android/libc.c",
    "android/start.c",
    "android/symbols/libc.txt",
    "android/symbols/libdl.txt",
    "android/symbols/liblog.txt",
    "android/symbols/libm.txt",
    "apple/libc++.symbols",
    "elf/dso_handle.c",
]

# Programs find zig beside their own repository, so that they work in any folder.
_PROGRAM = """\
#!/bin/sh
exec "${0%/*}/../../%{zig}/zig" %{command} "$@"
"""

# The driver of compilations is clang, that of links is zig, whose linker knows Mach-O. Zig wants a
# folder for a cache, knows libraries by their extension only, which those of frameworks don't have,
# and builds libraries of its own for options that name the system's, which are in the stubs.
_APPLE_DRIVER = """\
#!/bin/sh
set -eu
zig=${0%/*}/../../%{zig}
for argument in "$@"; do
  case $argument in
    -c | -E | -S | -fsyntax-only | --version | -v) exec "$zig/zig" clang "$@" ;;
  esac
done
work=$(mktemp -d "${TMPDIR:-/tmp}/link.XXXXXX")
trap 'rm -rf "$work"' EXIT
expand() {
  for argument in "$@"; do
    if [ "${argument#@}" != "$argument" ] && [ -f "${argument#@}" ]; then
      while IFS= read -r line; do expand "$line"; done <"${argument#@}"
    else
      printf '%s\\n' "$argument"
    fi
  done
}
expand "$@" >"$work/expanded"
previous=
while IFS= read -r argument; do
  case $argument in
    -pthread | -lSystem | -lc | -lc++ | -ldl | -lm | -lpthread | -lrt) continue ;;
    -*) ;;
    *)
      # Without an extension: nothing after the last slash or dot but the name.
      if [ "$previous" != -o ] && [ "${argument##*/}" = "${argument##*[/.]}" ] && [ -f "$argument" ]; then
        ln -s "$(realpath "$argument")" "$work/${argument##*/}.dylib"
        argument=$work/${argument##*/}.dylib
      fi
      ;;
  esac
  previous=$argument
  printf '%s\\n' "$argument"
done <"$work/expanded" >"$work/arguments"
export ZIG_LIB_DIR="$zig/lib" ZIG_GLOBAL_CACHE_DIR="$work" ZIG_LOCAL_CACHE_DIR="$work"
"$zig/zig" cc -target %{zig_target} "@$work/arguments"
"""

# Zig has no program for it. Links in the mode opt strip by themselves.
_STRIP = """\
#!/bin/sh
# Called as: strip [options] -o OUTPUT INPUT.
set -eu
while [ $# -gt 1 ]; do
  case $1 in
    -o) output=$2 && shift 2 ;;
    *) shift ;;
  esac
done
cp -- "$1" "$output"
"""

def _target_repository_impl(rctx):
    target = TARGETS[rctx.attr.platform]
    zig = rctx.path(rctx.attr.zig)
    sources = {}
    for name, label in zip(_SOURCES, rctx.attr._sources):
        sources[name] = rctx.path(label)
        if hasattr(rctx, "watch"):
            rctx.watch(sources[name])
    make = {
        "android": make_android_stubs,
        "apple": make_apple_stubs,
        "linux": make_linux_stubs,
    }[target.family]
    make(rctx, target, zig, sources)

    replaced = {"%{zig}": zig.dirname.basename, "%{zig_target}": target.zig_target}

    def write(name, text, more = {}):
        for key, value in (more | replaced).items():
            text = text.replace(key, value)
        rctx.file("bin/" + name, text)

    for name, command in {"ar": "ar", "ld.lld": "ld.lld"}.items():
        write(name, _PROGRAM, {"%{command}": command})
    if target.family == "apple":
        write("cc", _APPLE_DRIVER)
    else:
        write("cc", _PROGRAM, {"%{command}": "clang"})
    write("strip", _STRIP)
    write("none", "#!/bin/sh\necho \"$0: this toolchain has no such program\" >&2\nexit 1\n")
    rctx.file("BUILD.bazel", """\
load("@rules_executorch//toolchains/cc:toolchain.bzl", "target_toolchain")

exports_files(["BUILD.bazel"])

target_toolchain(platform = "%s")
""" % rctx.attr.platform)

target_repository = repository_rule(
    implementation = _target_repository_impl,
    doc = "A C++ toolchain for one platform: `:toolchain`.",
    attrs = {
        "platform": attr.string(mandatory = True, values = TARGETS.keys()),
        "zig": attr.label(default = Label("@executorch_zig//:zig")),
        "_sources": attr.label_list(
            default = [Label("//toolchains/cc:" + name) for name in _SOURCES],
        ),
    },
)
