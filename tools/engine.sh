#!/usr/bin/env bash
# Usage: engine.sh up|down|status
#   up    use the container engine that answers; where none does, install Debian's and start it
#   down  stop the engine, only if `up` started it
. "$(dirname "$0")/lib.sh"

socket=/var/run/docker.sock
dir=$state/engine
pidfile=$dir/docker.pid
log=$dir/dockerd.log

answers() { docker version >/dev/null 2>&1; }

# A pid file of a killed engine stops the next one once its number belongs to another process.
drop_stale() {
  local pid
  for file in /var/run/docker.pid "$pidfile"; do
    pid=$(as_root cat "$file" 2>/dev/null) || continue
    runs "$pid" dockerd "" || as_root rm -f "$file"
  done
}

up() {
  command -v docker >/dev/null && answers && { say "one answers already, version $(docker version -f '{{.Server.Version}}')"; return; }
  only_one engine
  if command -v docker >/dev/null && answers; then say "one answers already"; return; fi
  if runs "$(as_root cat /var/run/docker.pid 2>/dev/null)" dockerd ""; then
    die "a container engine runs but does not answer $(id -un): is this user in the group docker?"
  fi
  packages "the container engine" docker.io containerd runc iptables
  mkdir -p "$dir"
  drop_stale
  say "no container engine answers: starting one (data in $store/docker, log in $log)"
  # The socket belongs to whoever started it, so that no one has to join a group.
  as_root setsid dockerd --host "unix://$socket" --group "$(id -gn)" --data-root "$store/docker" \
    --exec-root "$dir/exec" --pidfile "$pidfile" >"$log" 2>&1 </dev/null 9>&- &
  local starter=$! _
  for _ in $(seq 300); do
    if answers; then say "up, pid $(as_root cat "$pidfile")"; return; fi
    kill -0 "$starter" 2>/dev/null || break
    sleep 0.2
  done
  tail -n 20 "$log" >&2
  die "the container engine did not come up; its log is $log"
}

case ${1:-} in
  up) up ;;
  down)
    only_one engine
    # Another checkout may use the engine that we started; its containers are not ours to stop.
    others=$(docker ps --format '{{.Names}}' 2>/dev/null | paste -sd' ' || :)
    [ -z "$others" ] || { say "left up: it runs $others"; exit; }
    stop "$pidfile" dockerd "$pidfile"
    ;;
  status) if answers; then say "answers"; else say "does not answer"; exit 1; fi ;;
  *) die "usage: engine.sh up|down|status" ;;
esac
