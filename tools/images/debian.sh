# Shared by the images made of Debian packages; sourced, not run.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# Debian 12: its Python is 3.11, which is what the engine's wheels are for.
suite=bookworm

# debian VARIANT OUT.tar OPTION...: a root file system as a tar. No mirror is named: mmdebstrap then takes the suite with
# its updates and security fixes from where this machine's apt takes its packages' suite.
debian() {
  local variant=$1 out=$2
  shift 2
  packages "makes root file systems" mmdebstrap
  local log
  log=$(mktemp)
  as_root mmdebstrap --variant="$variant" --dpkgopt=force-unsafe-io \
    --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$@" "$suite" "$out" >"$log" 2>&1 </dev/null || { tail -n 30 "$log" >&2; die "mmdebstrap failed"; }
  rm -f "$log"
}

# slim OUT.tar PACKAGES [OPTION...]: no package manager and no maintainer scripts, busybox for the small tools.
slim() {
  local out=$1 include=$2
  shift 2
  # Without /proc busybox cannot install itself, and nobody has written the user database.
  # shellcheck disable=SC2016  # expanded by the hook's shell
  debian extract "$out" --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --include="base-files,busybox-static,$include" \
    --extract-hook='for tool in $(chroot "$1" /bin/busybox --list); do
        [ -e "$1/bin/$tool" ] || [ -L "$1/bin/$tool" ] || ln -s busybox "$1/bin/$tool"; done' \
    --extract-hook='mkdir -p "$1/root" "$1/run"; install -d -m 1777 "$1/tmp" "$1/var/tmp"
        printf "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n" >"$1/etc/passwd"
        printf "root:x:0:\nnogroup:x:65534:\n" >"$1/etc/group"
        rm -rf "$1"/usr/share/perl* "$1"/usr/lib/*/perl-base' "$@"
}
