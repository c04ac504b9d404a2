#!/usr/bin/env bash
# Usage: check.sh [.venv|.venv312] [NAME...]
# The quick checks, two at a time; with .venv312 those that depend on the version of Python or ansible-core.
# The output of a failed check is printed at the end; that of all is in build/check/.
. "$(dirname "$0")/lib.sh"

venv=.venv
if [[ ${1:-} == .venv* ]]; then venv=$1; shift; fi
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

job() { "$1" 2>&1 | sed '/^WARNING: Location/d'; }

# The quickest first, then those that take most of the time, so that both cores are busy to the end.
names=(sanity units syntax)
[ "$venv" != .venv ] || names=(ruff yaml changelog scripts types sanity units lint docs syntax)
[ $# = 0 ] || names=("$@")
for name in "${names[@]}"; do declare -F "$name" >/dev/null || die "unknown check '$name'"; done
if [[ " ${names[*]} " == *" scripts "* ]]; then packages "checks the shell scripts" shellcheck; fi
export venv collection
export -f "${names[@]}"
run_jobs 2 "$build/check/${venv#.}" "${names[@]}"
