#!/usr/bin/env bash
# Usage: ansible-test.sh VENV COMMAND...     e.g. ansible-test.sh .venv sanity --local
# ansible-test wants a real folder .../ansible_collections/lobes/spike: it gets a copy of the files that git knows or would,
# without what is not shipped (galaxy.yml, build_ignore): tests and tools are checked by ruff and shellcheck.
. "$(dirname "$0")/lib.sh"

venv=$(cd "$1" && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy=$work/ansible_collections/lobes/spike
mkdir -p "$copy"
# Files deleted but not committed are still listed by git, hence the test for existence.
(cd "$root" && git ls-files -z --cached --others --exclude-standard -- . ':!.*' ':!requirements' ':!tools' ':!tests' ':!docs/examples' |
  while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done | xargs -0 cp -P --parents -t "$copy"
  cp --parents tests/config.yml tests/sanity/ignore-*.txt -t "$copy" 2>/dev/null || true)

# The bootstrap script's name tells the pip that this ansible-core pins.
version=$("$venv/bin/python" - <<'PYTHON'
import pathlib
import re

import ansible_test._internal

text = (pathlib.Path(ansible_test._internal.__file__).parent / "python_requirements.py").read_text()
print(re.search(r"pip=.([0-9.]+)", text)[1].replace(".", "_"))
PYTHON
)
bootstrap=$HOME/.ansible/test/cache/get_pip_$version.py
if [ ! -e "$bootstrap" ]; then
  mkdir -p "$(dirname "$bootstrap")"
  cp "$root/tools/ansible_test_pip.py" "$bootstrap"
fi
# The oldest Python of a box and the controller's own, and only where they run: pyenv puts stand-ins on PATH for versions
# that are not selected, and those fail.
mkdir "$work/bin"
for candidate in /usr/bin/python3.10 /usr/local/bin/python3.10 "$HOME"/.pyenv/versions/3.10.*/bin/python3.10; do
  if "$candidate" -c '' 2>/dev/null; then ln -sf "$candidate" "$work/bin/python3.10"; fi
done
own=$("$venv/bin/python" -c 'import os, sys; print(os.path.realpath(sys.executable), "python%d.%d" % sys.version_info[:2])')
ln -sf "${own% *}" "$work/bin/${own#* }"
cd "$copy"
git init --quiet .
git add --all
PATH=$venv/bin:$work/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$venv/bin/ansible-test" "$@" --color no
