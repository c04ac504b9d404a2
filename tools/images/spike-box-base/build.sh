#!/usr/bin/env bash
# A Debian host with a container engine and sshd of its own: what the box double is made from.
. "$(dirname "$0")/../debian.sh"
tar=$(mktemp --suffix .tar)
trap 'as_root rm -f "$tar"' EXIT
# shellcheck disable=SC2016  # expanded by the hook's shell
debian apt "$tar" \
  --include=mount,python3,python3-requests,iproute2,iptables,procps,ca-certificates,openssh-server,sudo,docker.io,containerd,runc \
  --customize-hook='rm -f "$1"/etc/ssh/ssh_host_*; mkdir -p "$1/run/sshd"'
docker import -c 'CMD ["/bin/sh"]' "$tar" "$1" >/dev/null
