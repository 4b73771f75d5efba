#!/bin/sh
# Starts %{label} from the runfiles of this script, where the machine can run it.
set -eu
case "$0" in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
runfiles=$self.runfiles
[ -d "$runfiles" ] || runfiles=${RUNFILES_DIR:-${TEST_SRCDIR:-$runfiles}}
app=$runfiles/%{app}
machine=$(uname -s)_$(uname -m)
case "%{platform}:$machine" in
linux_x86_64:Linux_x86_64 | linux_arm64:Linux_aarch64 | macos_arm64:Darwin_arm64)
  exec "$app/runner" "$@"
  ;;
esac
# Set by an emulator of --run_under that is given a script.
if [ -n "${RULES_EXECUTORCH_EMULATOR:-}" ] && [ "%{platform}" = linux_arm64 ]; then
  exec "$RULES_EXECUTORCH_EMULATOR" "$app/runner" "$@"
fi
case "%{platform}:$machine" in
linux_arm64:Linux_x86_64) how="start it in qemu with bazel run --run_under=@rules_executorch//toolchains/qemu:run_aarch64 %{label}" ;;
android_*) how="copy the directory to a device (adb push $app /data/local/tmp/) and start runner there" ;;
ios_*) how="put it into an app with Xcode; see docs/start/ios.md" ;;
*) how="copy its archive to a machine of that platform, unpack it, and start runner there" ;;
esac
echo "error: %{label} is for %{platform} and this machine is $machine: $how." >&2
exit 1
