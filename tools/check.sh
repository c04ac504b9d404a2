#!/usr/bin/env bash
# Usage: check.sh [.venv|.venv312] [NAME...]
# The quick checks, two at a time; with .venv312 those that depend on the version of Python or ansible-core.
# The output of a failed check is printed at the end; that of all is in build/check/.
. "$(dirname "$0")/lib.sh"

venv=.venv
if [[ ${1:-} == .venv* ]]; then venv=$1; shift; fi
logs=$build/check/${venv#.}
mkdir -p "$logs"
cd "$root"
PATH=$root/$venv/bin:$PATH
# What ansible prints while loading must not depend on who runs it.
export ANSIBLE_NOCOLOR=1 ANSIBLE_LOCALHOST_WARNING=0 PYTHONDONTWRITEBYTECODE=1

collection=ansible_collections.lobes.spike
ruff() { command ruff check --quiet .; }
types() { command mypy -p "$collection.plugins.module_utils" -p "$collection.plugins.plugin_utils"; }
yaml() { command yamllint --strict .; }
scripts() { git ls-files -z --cached --others --exclude-standard '*.sh' .ci/run | xargs -0 shellcheck; }
lint() { command ansible-lint --offline --nocolor -q; }
units() { command python -m pytest -q -m "not slow" tests/unit; }
sanity() { tools/ansible-test.sh "$venv" sanity --local; }
docs() { command antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs all --skip-rstcheck .; }
changelog() { command antsibull-changelog lint; }
# Every playbook against every inventory that a user meets.
syntax() {
  local playbook inventory
  for playbook in playbooks/*.yml; do
    [ -e "$playbook" ] || continue
    for inventory in inventories/*/; do
      command ansible-playbook -i "$inventory" --syntax-check "$playbook" || return
    done
  done
}

# run NAME: one check, its output to a file, one line on the terminal.
run() {
  local begin=$SECONDS verdict=ok
  ( "$1" ) >"$logs/$1.log" 2>&1 || verdict=FAILED
  printf '%-10s %-6s %3d s\n' "$1" "$verdict" $((SECONDS - begin))
  echo "$verdict" >"$logs/$1.verdict"
}

# The quickest first, then those that take most of the time, so that both cores are busy to the end.
names=(sanity units syntax)
[ "$venv" != .venv ] || names=(ruff yaml changelog scripts types sanity units lint docs syntax)
[ $# = 0 ] || names=("$@")
for name in "${names[@]}"; do declare -F "$name" >/dev/null || die "unknown check '$name'"; done
rm -f "$logs"/*.verdict
if [[ " ${names[*]} " == *" scripts "* ]]; then packages "checks the shell scripts" shellcheck; fi
export venv logs collection
export -f run "${names[@]}"
printf '%s\n' "${names[@]}" | xargs -P 2 -I NAME bash -c 'run NAME'
failed=0 passed=0
for name in "${names[@]}"; do
  if [ "$(cat "$logs/$name.verdict" 2>/dev/null)" = ok ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf '\n--- %s (%s)\n' "$name" "${logs#"$root"/}/$name.log"
    grep -v -e '^WARNING: Location' "$logs/$name.log" | tail -n 60
  fi
done
echo
echo "check: $passed passed, $failed failed"
[ "$failed" = 0 ]
