#!/usr/bin/env bash
# Usage: down.sh     Removes the containers that this checkout started, and stops the registry and the engine, if we started them.
. "$(dirname "$0")/lib.sh"
cd "$root"

if command -v docker >/dev/null && docker version >/dev/null 2>&1; then
  # The engines of spikes whose evidence is in this checkout, throw-away containers, and the doubles that it started. Others' are left alone.
  for spike in evidence/*/ facts fetch; do
    docker ps -aq --no-trunc --filter "label=lobes.spike=$(basename "$spike")"
  done | sort -u | while read -r id; do
    name=$(docker inspect -f '{{.Name}}' "$id" | cut -c2-)
    docker rm -fv "$id" >/dev/null && say "removed the container $name"
  done
  tests/doubles/box/box.sh down --all
fi
"$root/tools/engine.sh" down
# An engine that is left to others needs its registry.
if ! command -v docker >/dev/null || ! docker version >/dev/null 2>&1; then "$root/tools/registry.sh" down; fi
