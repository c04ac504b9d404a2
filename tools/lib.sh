# Shared by the scripts in tools/; sourced, not run.
# shellcheck shell=bash disable=SC2034  # variables are used by the scripts that source this

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Wheels, models and the like: shared between checkouts, and safe to delete at any time.
cache=${LOBES_SPIKE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lobes-spike}
# What we started (pid files, logs), shared between checkouts as the engine and the registry are.
state=${LOBES_SPIKE_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/lobes-spike}
# What must outlive a run and is large: image layers.
store=${LOBES_SPIKE_STORE:-/var/lib/lobes-spike}
registry=${LOBES_SPIKE_REGISTRY:-127.0.0.1:5000}
build=$root/build

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }
die() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "this needs root, and there is no sudo: $*"
  fi
}

# packages WHY NAME...: install the Debian packages that are missing, and say so.
packages() {
  local why=$1 name missing=()
  shift
  for name in "$@"; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$name" 2>/dev/null | grep -q '^ii' || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "install these first ($why): ${missing[*]}"
  say "installing ${missing[*]} ($why)"
  local log
  log=$(mktemp)
  if ! { as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    die "apt-get could not install ${missing[*]}"
  fi
  rm -f "$log"
}

# runs PID NAME MARK: the process lives, its executable is NAME and its command line holds MARK.
# Its executable, not its name: a killed process that nobody has reaped yet keeps its name.
runs() {
  [[ ${1:-} =~ ^[0-9]+$ ]] || return 1
  local exe
  exe=$(as_root readlink "/proc/$1/exe" 2>/dev/null) || return 1
  [ "$(basename "${exe% (deleted)}")" = "$2" ] || return 1
  tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -qF -- "$3"
}

# stop PIDFILE NAME MARK: end that process, if it still is the one we started.
stop() {
  local pid _
  pid=$(as_root cat "$1" 2>/dev/null) || { say "nothing of ours runs"; return 0; }
  if runs "$pid" "$2" "$3"; then
    as_root kill "$pid"
    for _ in $(seq 150); do
      runs "$pid" "$2" "$3" || { as_root rm -f "$1"; say "stopped $2 (pid $pid)"; return 0; }
      sleep 0.2
    done
    die "$2 (pid $pid) did not stop in 30 s"
  fi
  as_root rm -f "$1"
  say "$2 was not running any more"
}

# only_one NAME: wait until no other script of ours does the same thing.
only_one() {
  mkdir -p "$state"
  exec 9>"$state/$1.lock"
  flock 9
}

# digest FILE...: one hash over their names and contents.
digest() { (cd "$root" && sha256sum "$@") | sha256sum | cut -c1-16; }

# run_jobs AT_ONCE LOGS NAME...: the caller's exported function `job NAME` for each NAME, so many at once, the first ones
# first. A line for each on the terminal, its output in LOGS/NAME.log; the ends of those that failed are printed last.
run_jobs() {
  local at_once=$1 name passed=0 failed=0
  logs=$2
  shift 2
  mkdir -p "$logs"
  export logs
  export -f job timed_job
  for name in "$@"; do rm -f "$logs/$name.verdict"; done
  printf '%s\n' "$@" | xargs -P "$at_once" -I NAME bash -o pipefail -c 'timed_job NAME'
  for name in "$@"; do
    if [ "$(cat "$logs/$name.verdict" 2>/dev/null)" = ok ]; then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
      printf '\n--- %s (%s)\n' "$name" "${logs#"$root"/}/$name.log"
      tail -n 80 "$logs/$name.log"
    fi
  done
  echo
  echo "$(basename "$0" .sh): $passed passed, $failed failed"
  [ "$failed" = 0 ]
}

timed_job() {
  local begin=$SECONDS verdict=ok
  ( job "$1" ) >"$logs/$1.log" 2>&1 </dev/null || verdict=FAILED
  printf '%-24s %-6s %4d s\n' "$1" "$verdict" $((SECONDS - begin))
  echo "$verdict" >"$logs/$1.verdict"
}
