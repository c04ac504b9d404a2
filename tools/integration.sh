#!/usr/bin/env bash
# Usage: integration.sh [FILE...]     Runs the files of tests/integration, all unless named, two at a time.
. "$(dirname "$0")/lib.sh"

cd "$root"
files=("$@")
if [ $# = 0 ]; then
  for file in tests/integration/test_*.py; do files+=("$(basename "$file" .py)"); done
fi
export root
job() { "$root/.venv/bin/python" -m pytest -q "$root/tests/integration/$1.py"; }
run_jobs 2 "$build/integration" "${files[@]}"
