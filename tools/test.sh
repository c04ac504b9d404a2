#!/usr/bin/env bash
# Usage: test.sh TARGET...     Runs these targets of the Makefile one after the other, all of them even if one fails.
. "$(dirname "$0")/lib.sh"

mkdir -p "$build/test"
passed=0 failed=0 lines=()
for target in "$@"; do
  begin=$SECONDS verdict=ok
  echo "=== make $target"
  make --no-print-directory -C "$root" "$target" 2>&1 </dev/null | tee "$build/test/$target.log" || verdict=FAILED
  if [ "$verdict" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  lines+=("$(printf '%-16s %-6s %4d s' "$target" "$verdict" $((SECONDS - begin)))")
done
printf '\n=== %d s\n' "$SECONDS"
printf '%s\n' "${lines[@]}"
echo "test: $passed passed, $failed failed"
[ "$failed" = 0 ]
