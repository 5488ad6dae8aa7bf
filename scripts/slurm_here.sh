#!/usr/bin/env bash
# A SLURM of one node on this machine, without accounting, for the second tier of tests: start | stop
#
# Debian as root; it asks apt for slurm-wlm and munge if they are absent. Loopback only, state in
# /var/lib/kbench-slurm. It replaces /etc/slurm/slurm.conf, so use it where no other SLURM is.
set -e
state=/var/lib/kbench-slurm
host=$(hostname -s)
case ${1:-start} in
start)
  if ! command -v slurmctld > /dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq slurm-wlm munge > /dev/null
  fi
  mkdir -p $state/state $state/spool /run/munge /etc/slurm
  chown munge: /run/munge
  cat > /etc/slurm/slurm.conf << END
ClusterName=here
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation=$state/state
SlurmdSpoolDir=$state/spool
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
MpiDefault=none
KillWait=10
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$(awk '/MemTotal/{print int($2 / 1024 * 0.9)}' /proc/meminfo) State=UNKNOWN
PartitionName=short Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
  grep -q "127.0.0.1.*\b$host\b" /etc/hosts || echo "127.0.0.1 $host" >> /etc/hosts
  pgrep -x munged > /dev/null || runuser -u munge -- /usr/sbin/munged
  slurmctld
  slurmd
  sleep 3
  scontrol update nodename="$host" state=resume 2> /dev/null || true
  srun -n1 hostname
  ;;
stop)
  for file in $state/slurmctld.pid $state/slurmd.pid; do
    if [ -f $file ]; then kill "$(cat $file)"; fi
  done
  ;;
esac
