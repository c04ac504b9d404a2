#!/usr/bin/env bash
# Usage: package.sh [spike HOST PORT]
#   Builds the collection, installs it into an empty folder as a user does, and checks that it works from there: every
#   plugin documents itself, the playbooks are found by their full names, galaxy-importer has nothing against it.
#   With `spike`, also runs a short spike on the box at 127.0.0.1:PORT from the installed collection.
. "$(dirname "$0")/lib.sh"

dir=$build/package
venv=$root/.venv
PATH=$venv/bin:$PATH
rm -rf "$dir"
mkdir -p "$dir/elsewhere" "$dir/collections"
cd "$root"
"$venv/bin/ansible-galaxy" collection build --output-path "$dir" . >"$dir/build.log"
tarball=$(ls "$dir"/lobes-spike-*.tar.gz)
say "built $(basename "$tarball"), $(du -k "$tarball" | cut -f1) KiB"
if tar -tzf "$tarball" | grep -E '^(tests|tools|build|evidence|extensions)/|\.pyc$|^\.'; then die "the tarball holds what is not for users"; fi
for file in README.md CHANGELOG.rst changelogs/changelog.yaml meta/runtime.yml meta/execution-environment.yml; do
  tar -tzf "$tarball" "$file" >/dev/null 2>&1 || die "the tarball has no $file"
done

# community.docker, which it depends on, is in the environment already: there is no Galaxy here. By force, since the
# environment also holds a link to this checkout, by which the collection passes for installed.
"$venv/bin/ansible-galaxy" collection install --force --offline --no-deps -p "$dir/collections" "$tarball" >"$dir/install.log" 2>&1

# Nothing of the checkout may help: another folder, another configuration.
export ANSIBLE_CONFIG=$dir/elsewhere/ansible.cfg ANSIBLE_COLLECTIONS_PATH=$dir/collections ANSIBLE_NOCOLOR=1
printf '[defaults]\ncallbacks_enabled = lobes.spike.transcript\ninterpreter_python = auto_silent\n' >"$ANSIBLE_CONFIG"
cd "$dir/elsewhere"
"$venv/bin/ansible-doc" --list_files -t module lobes.spike >"$dir/files.log"
if [ ! -s "$dir/files.log" ] || grep -vF " $dir/collections/" "$dir/files.log"; then die "what runs is not what was installed; see $dir/files.log"; fi
for playbook in lightning_spike restart_worker measure cleanup transcript fleet; do
  "$venv/bin/ansible-playbook" "lobes.spike.$playbook" -i "$root/inventories/sim" -e evidence_dir=. --list-tasks >"$dir/$playbook.log" ||
    die "lobes.spike.$playbook is not found or does not parse; see $dir/$playbook.log"
done
"$venv/bin/ansible-doc" --json -t module -l lobes.spike >"$dir/modules.json"
say "installed; six playbooks and $("$venv/bin/python" -c 'import json,sys; print(len(json.load(sys.stdin)))' <"$dir/modules.json") modules are found by their full names"

if "$venv/bin/python" -c 'import galaxy_importer' 2>/dev/null; then
  "$venv/bin/python" -m galaxy_importer.main "$tarball" >"$dir/importer.log" 2>&1 || { tail -n 30 "$dir/importer.log"; die "galaxy-importer refuses it"; }
  if grep -E 'ERROR|WARNING' "$dir/importer.log" | grep -v 'ansible-test sanity skipped'; then say "galaxy-importer has remarks"; fi
  say "galaxy-importer accepts it"
fi

if [ "${1:-}" = spike ]; then
  "$venv/bin/ansible-playbook" lobes.spike.lightning_spike -i "$root/inventories/sim" -l thor -e "ansible_port=$3" \
    -e worker_lane_approval=thor -e spike_arms=B -e spike_phases=probes -e "spike_evidence_dir=$dir/elsewhere/evidence" >"$dir/spike.log" ||
    { tail -n 40 "$dir/spike.log"; die "the spike from the installed collection failed"; }
  ls "$dir"/elsewhere/evidence/*/thor/transcript.txt
fi
