#!/usr/bin/env bash
# Usage: setup.sh controller|dev|dev-312|site
#   controller  .venv with what a spike needs on the controller (ansible-core 2.19, Python 3.11 or newer)
#   dev         the same, with what the tests and checks need
#   dev-312     .venv312: the tests on Python 3.12 and the newest ansible-core
#   site        as dev, with the little that `make site` needs on top: its lock keeps to dev's pins
# Touches only what is missing or has another pin than the requirements say.
. "$(dirname "$0")/lib.sh"

what=${1:-controller}
case $what in
  controller) venv=$root/.venv locks=(controller.txt) collections=collections-2.19.txt ;;
  dev) venv=$root/.venv locks=(dev.txt) collections=collections-2.19.txt ;;
  dev-312) venv=$root/.venv312 locks=(dev-312.txt) collections=collections-2.21.txt ;;
  site) venv=$root/.venv locks=(dev.txt site.txt) collections=collections-2.19.txt ;;
  *) die "unknown environment '$what': controller, dev, dev-312 or site" ;;
esac

# is PYTHON at least / exactly the version wanted?
fits() {
  local test='sys.version_info[:2] >= (3, 11)'
  [ "$what" != dev-312 ] || test='sys.version_info[:2] == (3, 12)'
  "$1" -c "import sys; sys.exit(0 if $test else 1)" >/dev/null 2>&1
}

find_python() {
  local candidate
  # ansible-core 2.19's own newest Python is 3.13, so a plain "python3" comes last.
  local candidates=("${LOBES_SPIKE_PYTHON:-}" /usr/bin/python3 python3.11 python3.12 python3.13 python3)
  [ "$what" != dev-312 ] || candidates=("${LOBES_SPIKE_PYTHON312:-}" python3.12 "$HOME"/.pyenv/versions/3.12*/bin/python /usr/bin/python3)
  for candidate in "${candidates[@]}"; do
    [ -n "$candidate" ] && fits "$candidate" && { command -v "$candidate"; return; }
  done
  return 1
}

only_one "setup-$(basename "$venv")-$(printf %s "$root" | sha256sum | cut -c1-8)"
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  python=$(find_python) || {
    [ "$what" = dev-312 ] || die "no Python 3.11 or newer: install one, or name it in LOBES_SPIKE_PYTHON"
    die "no Python 3.12 (looked for python3.12 and ~/.pyenv/versions/3.12*): install one, or name it in LOBES_SPIKE_PYTHON312"
  }
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    packages "makes virtual environments" python3-venv
  fi
  say "new $(basename "$venv") with $("$python" --version 2>&1) ($python)"
  rm -rf "$venv"
  "$python" -m venv "$venv"
fi
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# The dev lock holds the controller's, so an environment that has it needs nothing for "controller".
stamp() { echo "$venv/.lobes-spike-$1-$(digest "requirements/$1")"; }
have() { [ -e "$(stamp "$1")" ]; }
for lock in "${locks[@]}"; do
  if have "$lock" || { [ "$lock" = controller.txt ] && have dev.txt; }; then
    say "$(basename "$venv") has $lock already"
    continue
  fi
  say "installing $lock into $(basename "$venv")"
  "$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes --only-binary :all: \
    -r "$root/requirements/$lock" || die "pip could not install requirements/$lock"
  touch "$(stamp "$lock")"
done

if ! have "$collections"; then
  say "taking community.docker and ansible.posix out of the ansible package"
  wheels=$(mktemp -d)
  trap 'rm -rf "$wheels"' EXIT
  "$venv/bin/python" -m pip download -qq --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: -d "$wheels" -r "$root/requirements/$collections" || die "pip could not fetch the ansible package"
  "$venv/bin/python" - "$site" "$wheels"/ansible-*.whl <<'PYTHON'
import pathlib
import shutil
import sys
import zipfile

site, wheel = pathlib.Path(sys.argv[1]), sys.argv[2]
wanted = ("community/docker", "community/library_inventory_filtering_v1", "ansible/posix")
for name in wanted:
    shutil.rmtree(site / "ansible_collections" / name, ignore_errors=True)
with zipfile.ZipFile(wheel) as archive:
    roots = tuple(f"ansible_collections/{name}/" for name in wanted)
    archive.extractall(site, [m for m in archive.namelist() if m.startswith(roots)])
PYTHON
  rm -f "$venv"/.lobes-spike-collections-*
  touch "$(stamp "$collections")"
fi

# Every tool, plain pytest included, then finds the checkout under its full name.
link=$site/ansible_collections/lobes/spike
if [ "$(readlink "$link" 2>/dev/null)" != "$root" ]; then
  mkdir -p "$(dirname "$link")"
  ln -sfn "$root" "$link"
  say "linked lobes.spike to this checkout"
fi
say "$(basename "$venv"): $("$venv/bin/ansible" --version | sed -n 1p), Python $("$venv/bin/python" -c 'import platform; print(platform.python_version())')"
