#!/usr/bin/env bash
# Starts a real Slurm of one node on loopback, for tests; needs root (a container is fine).
#   tests/slurm/start.sh FOLDER     leaves slurm.conf, logs and state in FOLDER
# Stop it with tests/slurm/stop.sh FOLDER.
set -euo pipefail
home=${1:?usage: start.sh FOLDER}
mkdir -p "$home"/{state,spool,log,run}
home=$(cd "$home" && pwd)
command -v slurmctld >/dev/null || {
  echo "slurmctld is missing: apt-get update && apt-get install -y slurm-wlm munge" >&2
  exit 2
}
host=$(hostname -s)
cores=$(nproc)
memory=$(($(awk '/MemTotal/ {print $2}' /proc/meminfo) / 1024 * 9 / 10))

# A munged of our own: its key, socket and logs stay in FOLDER.
head -c 1024 /dev/urandom >"$home/munge.key"
chmod 400 "$home/munge.key"
chmod 755 "$home" "$home/run"
munged --force --key-file="$home/munge.key" --socket="$home/run/munge.socket" \
  --pid-file="$home/run/munged.pid" --log-file="$home/log/munged.log" --seed-file="$home/munge.seed"

cat >"$home/slurm.conf" <<CONF
ClusterName=loopback
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$home/run/munge.socket
CredType=cred/munge
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool
SlurmctldPidFile=$home/run/slurmctld.pid
SlurmdPidFile=$home/run/slurmd.pid
SlurmctldLogFile=$home/log/slurmctld.log
SlurmdLogFile=$home/log/slurmd.log
# Containers seldom let slurmd make cgroups: processes are followed by their sessions, and memory is
# measured instead of fenced.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SchedulerParameters=sched_interval=2,batch_sched_delay=1
MinJobAge=600
KillWait=10
InactiveLimit=0
ReturnToService=2
MpiDefault=none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cores RealMemory=$memory State=UNKNOWN
PartitionName=low Nodes=$host Default=YES MaxTime=INFINITE PriorityTier=1 DefMemPerCPU=1000 State=UP
PartitionName=high Nodes=$host MaxTime=INFINITE PriorityTier=10 DefMemPerCPU=1000 State=UP
CONF
export SLURM_CONF=$home/slurm.conf
slurmctld -c
slurmd -c
for _ in $(seq 60); do
  state=$(sinfo -h -o %T 2>/dev/null | sort -u || true)
  if [[ $state == *idle* || $state == *mixed* ]]; then
    echo "export SLURM_CONF=$SLURM_CONF"
    exit 0
  fi
  sleep 1
done
echo "no node came up; see $home/log" >&2
exit 1
