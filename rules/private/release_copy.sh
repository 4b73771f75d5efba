#!/bin/sh
# Copies %{label} to a folder: what SHA256SUMS lists and nothing else, checked, whole or not at all.
set -eu
if [ $# -ne 1 ] || [ -z "$1" ] || [ "$1" = --help ]; then
  echo "usage: bazel run %{label} -- FOLDER      FOLDER must not exist, or be empty" >&2
  exit 2
fi
case "$0" in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
runfiles=$self.runfiles
[ -d "$runfiles" ] || runfiles=${RUNFILES_DIR:-$runfiles}
release=$runfiles/%{release}
case "$1" in /*) folder=$1 ;; *) folder=${BUILD_WORKING_DIRECTORY:-$PWD}/$1 ;; esac
folder=${folder%/}
if [ -e "$folder" ] && { [ ! -d "$folder" ] || [ -n "$(ls -A "$folder")" ]; }; then
  echo "error: $folder is there already; name a folder that isn't, or that is empty." >&2
  exit 1
fi
if command -v sha256sum >/dev/null; then check=sha256sum; else check="shasum -a 256"; fi
mkdir -p "$(dirname "$folder")"
copy=$folder.part.$$
trap 'rm -rf "$copy"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$copy"
while read -r _ file; do
  mkdir -p "$(dirname "$copy/$file")"
  cp "$release/$file" "$copy/$file"
  chmod 644 "$copy/$file"
done <"$release/SHA256SUMS"
cp "$release/SHA256SUMS" "$copy/SHA256SUMS"
chmod 644 "$copy/SHA256SUMS"
if ! (cd "$copy" && $check -c SHA256SUMS) >"$copy.log" 2>&1; then
  grep -v ': OK$' "$copy.log" >&2
  rm -f "$copy.log"
  echo "error: the copy differs from what was built: is the disk full, or was it built again meanwhile?" >&2
  exit 1
fi
rm -f "$copy.log"
if [ -d "$folder" ]; then rmdir "$folder"; fi
mv "$copy" "$folder"
echo "$folder: $(wc -l <"$folder/SHA256SUMS" | tr -d ' ') files and SHA256SUMS"
