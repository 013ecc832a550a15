#!/usr/bin/env bash
# Runs the Slurm executor against a real slurmctld and slurmd on loopback, and checks what it says.
#   tests/slurm/run.sh [PART...]
# Needs root and Debian's packages (apt-get update && apt-get install -y slurm-wlm munge).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=$(mktemp -d "${TMPDIR:-/tmp}/slackopt-slurm-XXXXXX")
trap '"$here/stop.sh" "$home"; rm -rf "$home"' EXIT
"$here/start.sh" "$home"
export SLURM_CONF=$home/slurm.conf
"${PYTHON:-python}" "$here/check_slurm.py" "$home/work" "$@"
