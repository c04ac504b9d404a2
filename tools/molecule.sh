#!/usr/bin/env bash
# Usage: molecule.sh [NAME...]     Runs the scenarios in extensions/molecule, all unless named, one after the other.
. "$(dirname "$0")/lib.sh"

cd "$root"
PATH=$root/.venv/bin:$PATH
# Molecule's own folder, so that two checkouts do not share state.
export MOLECULE_EPHEMERAL_DIRECTORY ANSIBLE_FORCE_COLOR=0 PY_COLORS=0
scenarios=("$@")
if [ $# = 0 ]; then
  for file in extensions/molecule/*/molecule.yml; do
    [ -e "$file" ] && scenarios+=("$(basename "$(dirname "$file")")")
  done
fi
mkdir -p "$build/molecule"
passed=0 failed=0
for name in "${scenarios[@]}"; do
  begin=$SECONDS
  MOLECULE_EPHEMERAL_DIRECTORY=$root/.cache/molecule/$name
  if molecule test -s "$name" >"$build/molecule/$name.log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    printf '%-24s ok     %3d s\n' "$name" $((SECONDS - begin))
  else
    failed=$((failed + 1))
    printf '%-24s FAILED %3d s; the end of build/molecule/%s.log:\n' "$name" $((SECONDS - begin)) "$name"
    tail -n 80 "$build/molecule/$name.log"
  fi
done
echo
echo "molecule: $passed passed, $failed failed"
[ "$failed" = 0 ]
