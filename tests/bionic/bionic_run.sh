#!/bin/sh
# Runs a program for Android on this machine under the bench: %{name} PROGRAM ARGUMENT…
set -eu
case "$0" in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
runfiles=$self.runfiles
[ -d "$runfiles" ] || runfiles=${RUNFILES_DIR:-${TEST_SRCDIR:-$runfiles}}
cd_to() { CDPATH='' cd -- "$1" && pwd; }
bench=$(cd_to "$runfiles/%{bench}")
emulator=%{emulator}
glibc=%{glibc}
if [ -n "$emulator" ]; then
  glibc=$(cd_to "$runfiles/$glibc")
  # All are given by name: without it the emulator looks for files of the machine's own processor.
  exec "$runfiles/$emulator" -cpu "%{cpu}" "$glibc/%{loader}" --preload "$bench/libbench.so" \
    --library-path "$bench:$glibc" "$@"
fi
exec "%{loader}" --preload "$bench/libbench.so" --library-path "$bench" "$@"
