#!/bin/sh
# Copies %{label} to a folder: what SHA256SUMS lists and nothing else, checked, whole or not at all. With --by_hash,
# files go to sha256/<hash>, beside those of other releases, and the lists are replaced last: whoever reads
# manifest.json finds all that it lists.
set -eu
by_hash=
if [ "${1:-}" = --by_hash ]; then
  by_hash=yes
  shift
fi
if [ $# -ne 1 ] || [ -z "$1" ] || [ "$1" = --help ]; then
  echo "usage: bazel run %{label} -- FOLDER                FOLDER must not exist, or be empty" >&2
  echo "       bazel run %{label} -- --by_hash FOLDER      adds files that FOLDER lacks, as sha256/<hash>" >&2
  exit 2
fi
case "$0" in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
runfiles=$self.runfiles
[ -d "$runfiles" ] || runfiles=${RUNFILES_DIR:-$runfiles}
release=$runfiles/%{release}
case "$1" in /*) folder=$1 ;; *) folder=${BUILD_WORKING_DIRECTORY:-$PWD}/$1 ;; esac
folder=${folder%/}
if [ -z "$by_hash" ] && [ -e "$folder" ] && { [ ! -d "$folder" ] || [ -n "$(ls -A "$folder")" ]; }; then
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
if [ -n "$by_hash" ]; then
  mkdir -p "$folder/sha256"
  added=0
  while read -r hash file; do
    [ -e "$folder/sha256/$hash" ] && continue
    mv "$copy/$file" "$folder/sha256/$hash"
    added=$((added + 1))
  done <"$release/SHA256SUMS"
  for list in changes.json sbom.cdx.json SHA256SUMS manifest.json; do
    [ -e "$release/$list" ] || continue
    cp "$release/$list" "$copy/$list"
    chmod 644 "$copy/$list"
    mv -f "$copy/$list" "$folder/$list"
  done
  echo "$folder: $added new files of $(wc -l <"$folder/SHA256SUMS" | tr -d ' ')"
  exit
fi
if [ -d "$folder" ]; then rmdir "$folder"; fi
mv "$copy" "$folder"
echo "$folder: $(wc -l <"$folder/SHA256SUMS" | tr -d ' ') files and SHA256SUMS"
