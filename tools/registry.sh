#!/usr/bin/env bash
# Usage: registry.sh up|down|config
#   up      use the registry that answers on the address of LOBES_SPIKE_REGISTRY (default 127.0.0.1:5000);
#           where none does, install Debian's docker-registry and start it
#   down    stop the registry, only if `up` started it
#   config  print a read-only configuration of the same data, for a registry inside a box double
. "$(dirname "$0")/lib.sh"

dir=$state/registry
pidfile=$dir/registry.pid
config=$dir/registry.yml
log=$dir/registry.log

answers() { python3 -c 'import sys, urllib.request as u; u.build_opener(u.ProxyHandler({})).open(sys.argv[1], timeout=5)' "http://$registry/v2/" >/dev/null 2>&1; }

# settings ADDRESS DIRECTORY READONLY
settings() {
  cat <<YAML
version: 0.1
log: {level: warn, accesslog: {disabled: true}}
http: {addr: "$1"}
storage:
  filesystem: {rootdirectory: "$2"}
  delete: {enabled: true}
  maintenance: {readonly: {enabled: $3}}
YAML
}

up() {
  if answers; then say "one answers on $registry already"; return; fi
  only_one registry
  if answers; then say "one answers on $registry already"; return; fi
  packages "an image registry on this machine" docker-registry
  mkdir -p "$dir"
  [ -d "$store/registry" ] || as_root install -d -o "$(id -u)" "$store/registry"
  settings "$registry" "$store/registry" false >"$config"
  setsid docker-registry serve "$config" >"$log" 2>&1 </dev/null 9>&- &
  local pid=$! _
  echo "$pid" >"$pidfile"
  for _ in $(seq 100); do
    if answers; then say "up on $registry, pid $pid (data in $store/registry)"; return; fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 20 "$log" >&2
  die "the registry did not come up on $registry; its log is $log"
}

case ${1:-} in
  up) up ;;
  down) only_one registry; stop "$pidfile" docker-registry "$config" ;;
  config) settings 127.0.0.1:5000 /srv/registry true ;;
  *) die "usage: registry.sh up|down|config" ;;
esac
