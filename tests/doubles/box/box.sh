#!/usr/bin/env bash
# Simulated boxes for `inventories/sim`, for fleets and for play.
# Usage: box.sh up NAME PORT [KEY=VALUE...]   a box reached by ssh on 127.0.0.1:PORT; KEY=VALUE goes to its engines
#        box.sh down NAME...|--all            only boxes that this checkout started
#        box.sh ssh NAME [COMMAND]            a shell on it
#        box.sh fault NAME FAULT[:ARG]...     switch faults on (heal: off)
#        box.sh images                        make the images and build/sim/engine.digest, nothing more
#        box.sh --list-faults
# Environment: BOX_FAULTS=NAME,... at the start; BOX_LANES=none for a box without lanes.
. "$(dirname "$0")/../../../tools/lib.sh"

sim=$build/sim
here=$(printf %s "$root" | sha256sum | cut -c1-12)
mine=(--filter label=lobes.spike.double=1 --filter "label=lobes.spike.double.checkout=$here")

# The name without the address of this machine's registry: what a box's mirror resolves.
real_name() { sed 's,^[^/]*/,,' "$build/images/$1.digest"; }

images() {
  local log
  log=$(mktemp)
  "$root/tools/image.sh" engine lane box >"$log" 2>&1 || { cat "$log" >&2; die "the images could not be made"; }
  rm -f "$log"
  mkdir -p "$sim"
  real_name engine >"$sim/engine.digest"
}

key() {
  mkdir -p "$sim"
  [ -f "$sim/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C lobes.spike.double -f "$sim/id_ed25519"
  cat "$sim/id_ed25519.pub"
}

ours() { docker ps -aq --no-trunc "${mine[@]}" --filter "name=^/$1\$"; }

up() {
  local name=${1:-} port=${2:-} begin=$SECONDS id image lane='' fuse='' environment _
  [[ $name =~ ^[a-z0-9][a-z0-9-]*$ && $port =~ ^[0-9]+$ ]] || die "usage: box.sh up NAME PORT [KEY=VALUE...]"
  shift 2
  docker version >/dev/null 2>&1 || die "no container engine answers; tools/engine.sh up starts one"
  only_one "box-$name"
  images
  image=$(cat "$build/images/box.digest")
  [ "${BOX_LANES:-}" = none ] || lane=$(real_name lane)
  environment=$(IFS=';'; echo "$*")
  [ ! -e /dev/fuse ] || fuse=1
  id=$(ours "$name")
  if [ -n "$id" ] && [ "$(docker inspect -f '{{.Config.Image}} {{.State.Running}}' "$id")" = "$image true" ]; then
    say "$name is up already on port $port"
  else
    [ -z "$id" ] || docker rm -fv "$id" >/dev/null
    docker run -d --init --name "$name" --hostname "${name#spike-}" --label lobes.spike.double=1 \
      --label "lobes.spike.double.checkout=$here" --cap-add SYS_ADMIN --cap-add NET_ADMIN \
      --security-opt seccomp=unconfined --security-opt apparmor=unconfined ${fuse:+--device /dev/fuse} \
      -p "127.0.0.1:$port:22" -v "$store/registry:/srv/registry:ro" -e "BOX_AUTHORIZED_KEY=$(key)" \
      -e "BOX_LANE_IMAGE=$lane" -e "BOX_FAULTS=${BOX_FAULTS:-}" -e "BOX_ENGINE_ENV=$environment" "$image" >/dev/null
  fi
  for _ in $(seq 300); do
    if docker exec "$name" test -e /run/spike-sim/ready 2>/dev/null; then
      printf '{"name": "%s", "port": %s, "image": "%s", "engine": "%s"}\n' "$name" "$port" "$image" "$(cat "$sim/engine.digest")" >"$sim/$name.json"
      say "$name is ready on 127.0.0.1:$port after $((SECONDS - begin)) s"
      return
    fi
    [ "$(docker inspect -f '{{.State.Running}}' "$name")" = true ] || break
    sleep 0.1
  done
  docker exec "$name" sh -c 'tail -n 5 /var/log/spike-*.log /var/log/dockerd.log' >&2 || docker logs --tail 20 "$name" >&2
  die "$name did not get ready"
}

down() {
  local name id
  [ $# -gt 0 ] || die "usage: box.sh down NAME...|--all"
  [ "$1" != --all ] || set -- $(docker ps -a "${mine[@]}" --format '{{.Names}}')
  for name; do
    id=$(ours "$name")
    if [ -n "$id" ]; then docker rm -fv "$id" >/dev/null; say "$name is gone"; else say "there is no box $name of this checkout"; fi
    rm -f "$sim/$name.json"
  done
}

case ${1:-} in
  up | down) "$@" ;;
  images) images ;;
  ssh)
    name=${2:?usage: box.sh ssh NAME [COMMAND]}
    port=$(docker port "$name" 22/tcp | sed 's/.*://')
    shift 2
    exec ssh -i "$sim/id_ed25519" -p "$port" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR root@127.0.0.1 "$@"
    ;;
  fault | heal)
    verb=$1 name=${2:?usage: box.sh fault NAME FAULT...}
    shift 2
    docker exec "$name" box "$verb" "$@"
    ;;
  --list-faults) PYTHONPATH=$(dirname "$0")/rootfs/opt/spike exec python3 -m spike_box box --list-faults ;;
  *) sed -n '2,9s/^# \?//p' "$0" >&2; exit 2 ;;
esac
