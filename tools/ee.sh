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
# The image gets the collections that the tests ran with, and one lock that keeps to the controller's.
python - "$dir/context/_build/requirements.yml" <<'PYTHON' || die "execution-environment.yml names other collections than the tests use"
import json
import pathlib
import sys
import sysconfig

import yaml

home = pathlib.Path(sysconfig.get_path("purelib")) / "ansible_collections"
wanted = yaml.safe_load(pathlib.Path(sys.argv[1]).read_text())["collections"]
for entry in (entry for entry in wanted if "version" in entry):
    manifest = json.loads((home / entry["name"].replace(".", "/") / "MANIFEST.json").read_text())
    used = manifest["collection_info"]["version"]
    if str(entry["version"]) != used:
        sys.exit(f"{entry['name']} {entry['version']}, the tests use {used}")
PYTHON
[ -z "$(comm -23 <(grep -h == requirements/controller.txt | sort) <(grep -h == requirements/ee.txt | sort))" ] ||
  die "requirements/ee.txt has other pins than controller.txt: make lock"
grep -q -- --require-hashes "$dir/context/Containerfile" || die "the Containerfile installs Python without hashes"
say "build context in ${dir#"$root"/}/context: ansible-builder build -f execution-environment.yml -t IMAGE makes the image of it"
