#!/usr/bin/env bash
# Stops what start.sh started, and nothing else.
set -uo pipefail
home=$(cd "${1:?usage: stop.sh FOLDER}" && pwd)
export SLURM_CONF=$home/slurm.conf
scancel -u "$(id -un)" 2>/dev/null
for name in slurmd slurmctld munged; do
  [[ -f $home/run/$name.pid ]] && kill "$(cat "$home/run/$name.pid")" 2>/dev/null
done
for _ in $(seq 40); do
  alive=0
  for name in slurmd slurmctld munged; do
    [[ -f $home/run/$name.pid ]] && kill -0 "$(cat "$home/run/$name.pid")" 2>/dev/null && alive=1
  done
  [[ $alive == 0 ]] && exit 0
  sleep 0.25
done
exit 0
