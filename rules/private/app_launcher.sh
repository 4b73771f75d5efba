#!/bin/sh
# Starts %{label} from the runfiles of this script, where the machine can run it.
set -eu
case "$0" in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
runfiles=$self.runfiles
[ -d "$runfiles" ] || runfiles=${RUNFILES_DIR:-${TEST_SRCDIR:-$runfiles}}
app=$runfiles/%{app}
%{library_path}machine=$(uname -s)_$(uname -m)
case "%{platform}:$machine" in
linux_x86_64:Linux_x86_64 | linux_arm64:Linux_aarch64 | macos_arm64:Darwin_arm64)
  exec "$app/runner" "$@"
  ;;
esac
# Set by an emulator of --run_under that is given a script.
if [ -n "${RULES_EXECUTORCH_EMULATOR:-}" ] && [ "%{platform}" = linux_arm64 ]; then
  exec "$RULES_EXECUTORCH_EMULATOR" "$app/runner" "$@"
fi
# A word for the device's shell.
quoted() {
  printf " '%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"
}

# Copies what changed to the device, and starts the runner there. With --dry_run it prints the commands. With
# --pull FILE PATH it then copies a file that the runner wrote from the device.
run_on_device() {
  adb=${ADB:-adb}
  shows=
  if [ "${1:-}" = --dry_run ]; then
    shows=yes
    shift
  fi
  pulled=
  if [ "${1:-}" = --pull ]; then
    pulled=$2
    there=$3
    shift 3
  fi
  name=$(basename "$app")
  command="cd '/data/local/tmp/$name' && chmod +x runner && ./runner"
  for word in "$@"; do
    command=$command$(quoted "$word")
  done
  if [ -n "$shows" ]; then
    echo "$adb push --sync '$app/.' '/data/local/tmp/$name/'"
    echo "$adb shell$(quoted "$command")"
    [ -z "$pulled" ] || echo "$adb pull '/data/local/tmp/$name/$pulled'$(quoted "$there")"
    exit 0
  fi
  if ! command -v "$adb" >/dev/null; then
    echo "error: %{label} is for %{platform} and this machine is $machine: $adb, which starts it on a device, is not" \
      "installed. Install Android's platform tools, set ADB to its path, or see the commands with -- --dry_run." >&2
    exit 1
  fi
  if ! "$adb" get-state >/dev/null 2>&1; then
    echo "error: %{label}: \"$adb get-state\" finds no single device that is ready. Connect one and allow debugging," \
      "choose one of several with ANDROID_SERIAL, or see the commands with -- --dry_run." >&2
    exit 1
  fi
  # --sync copies only files that differ.
  "$adb" push --sync "$app/." "/data/local/tmp/$name/" >&2
  [ -n "$pulled" ] || exec "$adb" shell "$command"
  "$adb" shell "$command"
  "$adb" pull "/data/local/tmp/$name/$pulled" "$there" >&2
  exit 0
}

case "%{platform}" in
android_*) run_on_device "$@" ;;
esac
case "%{platform}:$machine" in
linux_arm64:Linux_x86_64) how="start it in qemu with bazel run --run_under=@executorch_qemu//:run_aarch64 %{label} (docs/howto/apps.md says what MODULE.bazel needs)" ;;
ios_*) how="put it into an app with Xcode; see docs/start/ios.md" ;;
*) how="copy its archive to a machine of that platform, unpack it, and start runner there" ;;
esac
echo "error: %{label} is for %{platform} and this machine is $machine: $how." >&2
exit 1
