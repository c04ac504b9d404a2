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

sources() { (cd "$root" && find tests/doubles tools -name __pycache__ -prune -o -type f "$@" -print); }

# Nothing that the images are made of has changed since they were made, and they are where they belong.
images_stand() {
  local name digest
  [ -e "$sim/images.made" ] || return 1
  for name in engine lane box; do
    digest=$(cat "$build/images/$name.digest" 2>/dev/null) || return 1
    [ -e "$store/registry/docker/registry/v2/blobs/sha256/${digest:(-64):2}/${digest: -64}/data" ] || return 1
  done
  docker image inspect "$(cat "$build/images/box.digest")" >/dev/null 2>&1 || return 1
  [ "$(sources | sort | sha256sum)" = "$(cat "$sim/images.made")" ] && [ -z "$(sources -newer "$sim/images.made")" ]
}

images() {
  images_stand && return
  local log begun
  log=$(mktemp)
  mkdir -p "$sim"
  begun=$(mktemp "$sim/images.XXXXXX")
  sources | sort | sha256sum >"$begun"
  "$root/tools/image.sh" engine lane box >"$log" 2>&1 || { cat "$log" >&2; die "the images could not be made"; }
  rm -f "$log"
  real_name engine >"$sim/engine.digest"
  mv "$begun" "$sim/images.made"
}

key() {
  mkdir -p "$sim"
  [ -f "$sim/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C lobes.spike.double -f "$sim/id_ed25519"
  cat "$sim/id_ed25519.pub"
}

ours() { docker ps -aq --no-trunc "${mine[@]}" --filter "name=^/$1\$"; }

# Waits until the box says so. Its log is followed and nothing is polled: each look inside would cost a process there.
ready() {
  local follower started said
  started=$(docker inspect -f '{{.State.StartedAt}}' "$1")
  exec 3< <(exec timeout 180 docker logs -f --since "$started" "$1" 2>&1)
  follower=$!
  said=$(grep -m 1 -x 'box: ready' <&3 || :)
  kill "$follower" 2>/dev/null || :
  exec 3<&-
  [ -n "$said" ]
}

up() {
  local name=${1:-} port=${2:-} begin=$SECONDS id image lane='' fuse='' environment
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
  [ -n "$id" ] || [ -z "$(docker ps -aq --filter "name=^/$name\$")" ] ||
    die "a container $name is there that this checkout did not start; run 'make down' where it was started, or remove it"
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
  if ready "$name"; then
    printf '{"name": "%s", "port": %s, "image": "%s", "engine": "%s"}\n' \
      "$name" "$port" "$image" "$(cat "$sim/engine.digest")" >"$sim/$name.json"
    say "$name is ready on 127.0.0.1:$port after $((SECONDS - begin)) s"
    return
  fi
  docker logs --tail 40 "$name" >&2
  die "$name did not get ready"
}

down() {
  local name id names=("$@")
  [ $# -gt 0 ] || die "usage: box.sh down NAME...|--all"
  [ "$1" != --all ] || mapfile -t names < <(docker ps -a "${mine[@]}" --format '{{.Names}}')
  for name in "${names[@]}"; do
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
