#!/usr/bin/env bash
# A small Debian with Python and requests: what the engine double is made from.
. "$(dirname "$0")/../debian.sh"
tar=$(mktemp --suffix .tar)
trap 'as_root rm -f "$tar"' EXIT
slim "$tar" python3,python3-requests,ca-certificates
docker import -c 'CMD ["/bin/sh"]' "$tar" "$1" >/dev/null
