#!/usr/bin/env bash
# Usage: spike.sh INVENTORY HOST [OPTION...]     e.g. spike.sh sim thor -e spike_phases=probes
# Runs the spike on a box of inventories/INVENTORY; its last lines say where the transcript is.
. "$(dirname "$0")/lib.sh"

inventory=$1 host=$2
shift 2
cd "$root"
# The box is a double or this machine, so its approval asks nobody.
exec .venv/bin/ansible-playbook playbooks/lightning-spike.yml -i "inventories/$inventory" -l "$host" \
  -e "worker_lane_approval=$host" -e "worker_lane_approved_by=$(id -un), make" "$@"
