#!/bin/bash
# A real Slurm on this one machine, for trying experiments on it: two cores, one node, no accounting.
#   cluster.sh start FOLDER     configures and starts munge, slurmctld and slurmd, with everything under FOLDER
#   cluster.sh fail FOLDER      the node fails: slurmd and what it runs are killed, the controller is told
#   cluster.sh repair FOLDER    slurmd is started again
#   cluster.sh stop FOLDER      ends all of it
# Needs Debian's packages slurmctld, slurmd, slurm-client, munge (apt-get install --no-install-recommends), and root.
set -euo pipefail
action=${1:?start, fail, repair or stop}
root=$(realpath -m "${2:?a folder}")
node=$(hostname -s)
export SLURM_CONF=$root/slurm.conf

wait_for() { # a command, until it succeeds
  for _ in $(seq 60); do "$@" > /dev/null 2>&1 && return; sleep 0.5; done
  echo "gave up waiting for: $*" >&2
  exit 1
}
kill_by_file() { [ -f "$1" ] && kill "${2:--TERM}" "$(cat "$1")" 2> /dev/null || true; }
is_idle() { sinfo --noheader --format=%T | grep -qE 'idle|mixed|allocated'; }

start_slurmd() {
  slurmd -D > "$root/slurmd.out" 2>&1 &
  echo $! > "$root/slurmd.own.pid"
}

case $action in
  start)
    mkdir -p "$root"/{state,spool,munge,log}
    dd if=/dev/urandom bs=1024 count=1 of="$root/munge/munge.key" status=none
    chown -R munge: "$root/munge"
    chmod 700 "$root/munge"
    chmod 400 "$root/munge/munge.key"
    chmod 755 "$root"
    runuser -u munge -- munged --force --key-file="$root/munge/munge.key" --socket="$root/munge.socket" \
      --pid-file="$root/munge/munged.pid" --log-file="$root/munge/munged.log" --seed-file="$root/munge/munged.seed" 2> /dev/null || {
      # The socket's folder must belong to munge.
      chown munge: "$root"
      runuser -u munge -- munged --force --key-file="$root/munge/munge.key" --socket="$root/munge.socket" \
        --pid-file="$root/munge/munged.pid" --log-file="$root/munge/munged.log" --seed-file="$root/munge/munged.seed"
    }
    cat > "$SLURM_CONF" <<CONF
ClusterName=layergraft
SlurmctldHost=$node(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$root/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$root/state
SlurmdSpoolDir=$root/spool
SlurmctldPidFile=$root/slurmctld.pid
SlurmdPidFile=$root/slurmd.pid
SlurmctldLogFile=$root/log/slurmctld.log
SlurmdLogFile=$root/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
ReturnToService=2
SlurmdTimeout=10
InactiveLimit=0
KillWait=3
MinJobAge=300
JobRequeue=1
NodeName=$node NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000
PartitionName=main Nodes=$node Default=YES State=UP MaxTime=INFINITE
CONF
    slurmctld -D > "$root/slurmctld.out" 2>&1 &
    echo $! > "$root/slurmctld.own.pid"
    start_slurmd
    wait_for is_idle
    sinfo
    echo "export SLURM_CONF=$SLURM_CONF"
    ;;
  fail)
    kill_by_file "$root/slurmd.own.pid" -KILL
    # What a dead machine would take with it: the steps' daemons and their jobs.
    for job in $(squeue --noheader --states=RUNNING --format=%A); do
      pkill -KILL -f "slurmstepd: \[$job" || true
      for pid in $(pgrep -f "$root/spool/job" || true); do kill -KILL "$pid" 2> /dev/null || true; done
    done
    scontrol update NodeName="$node" State=DOWN Reason="pulled the plug"
    sinfo
    ;;
  repair)
    start_slurmd
    scontrol update NodeName="$node" State=RESUME || true
    wait_for is_idle
    sinfo
    ;;
  stop)
    kill_by_file "$root/slurmd.own.pid"
    kill_by_file "$root/slurmctld.own.pid"
    kill_by_file "$root/munge/munged.pid"
    ;;
  *)
    echo "start, fail, repair or stop" >&2
    exit 2
    ;;
esac
