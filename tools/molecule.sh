#!/usr/bin/env bash
# Usage: molecule.sh [NAME...]     Runs the scenarios in extensions/molecule, all unless named, two at a time.
. "$(dirname "$0")/lib.sh"

cd "$root"
PATH=$root/.venv/bin:$PATH
scenarios=("$@")
if [ $# = 0 ]; then
  for file in extensions/molecule/*/molecule.yml; do
    [ -e "$file" ] && scenarios+=("$(basename "$(dirname "$file")")")
  done
fi

# A folder of its own for each scenario, so that neither two of them nor two checkouts share state.
export root ANSIBLE_FORCE_COLOR=0 PY_COLORS=0
job() { MOLECULE_EPHEMERAL_DIRECTORY=$root/.cache/molecule/$1 molecule test -s "$1"; }

# What measures a real engine wants the machine to itself.
alone=() together=()
for name in "${scenarios[@]}"; do
  if [ "$name" = real_engine ]; then alone+=("$name"); else together+=("$name"); fi
done
status=0
if [ ${#together[@]} -gt 0 ]; then run_jobs 2 "$build/molecule" "${together[@]}" || status=1; fi
if [ ${#alone[@]} -gt 0 ]; then run_jobs 1 "$build/molecule" "${alone[@]}" || status=1; fi
[ "$status" = 0 ]
