#!/usr/bin/env bash
# Usage: down.sh     Removes the containers that carry our labels, and stops the registry and the engine, if we started them.
. "$(dirname "$0")/lib.sh"

if command -v docker >/dev/null && docker version >/dev/null 2>&1; then
  # Engines and throw-away containers of spikes on this machine, and the doubles.
  for label in lobes.spike lobes.spike.double; do
    docker ps -aq --no-trunc --filter "label=$label"
  done | sort -u | while read -r id; do
    name=$(docker inspect -f '{{.Name}}' "$id" | cut -c2-)
    docker rm -fv "$id" >/dev/null && say "removed the container $name"
  done
fi
"$root/tools/registry.sh" down
"$root/tools/engine.sh" down
