#!/usr/bin/env bash
# Usage: ee.sh
#   Builds the collection and lets ansible-builder write the build context of execution-environment.yml to build/ee/context.
#   The image itself is built from it where an image registry and Galaxy can be reached: ansible-builder build.
. "$(dirname "$0")/lib.sh"

dir=$build/ee
log=$dir/create.log
PATH=$root/.venv/bin:$PATH
cd "$root"
rm -rf "$dir"
mkdir -p "$dir"
ansible-galaxy collection build --output-path "$dir" . >"$log"
mv "$dir"/lobes-spike-*.tar.gz "$dir/lobes-spike.tar.gz"
ansible-builder create -f execution-environment.yml -c "$dir/context" --output-filename Containerfile -v 2 >>"$log" 2>&1 ||
  { tail -n 20 "$log" >&2; die "ansible-builder refuses execution-environment.yml"; }
for file in Containerfile _build/lobes-spike.tar.gz _build/ee.txt _build/requirements.yml _build/bindep.txt; do
  [ -s "$dir/context/$file" ] || die "the build context has no $file; see ${log#"$root"/}"
done
grep -q -- --require-hashes "$dir/context/Containerfile" || die "the Containerfile installs Python without hashes"
say "build context in ${dir#"$root"/}/context: ansible-builder build -f execution-environment.yml -t IMAGE makes the image of it"
