"""The machine as Slurm would show it: one node in one partition."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from moiety.slurm import times
from moiety.slurm.pool import SlurmPool
from moiety.slurm.programs import VERSION
from moiety.slurm.show import selection
from moiety.slurm.show.jobs import PARTITION, SlurmJob
from moiety.slurm.show.selection import Wanted
from moiety.slurm.show.states import JobState

ACTIVE: Final = frozenset(
    {JobState.CONFIGURING, JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING}
)
MAX_ARRAY_SIZE: Final = 1001
MIN_JOB_AGE: Final = "3153600000 sec"
"""Work that has ended is never forgotten; Slurm's number is that of a hundred years."""


@dataclass(frozen=True)
class Machine:
    """The node, and what runs on it."""

    status: dict[str, Any]
    jobs: tuple[SlurmJob, ...]

    @property
    def host(self) -> str:
        """Its name."""
        return str(self.status["host"]) or os.uname().nodename.partition(".")[0]

    @property
    def cpus(self) -> int:
        """Its processors."""
        return int(self.status["cpus"]) or os.cpu_count() or 1

    @property
    def memory_mib(self) -> int:
        """Its memory."""
        pages: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return int(self.status["memory_mib"]) or pages >> 20

    @property
    def gpus(self) -> int:
        """How many GPUs it has."""
        return int(self.status["gpus"])

    @property
    def gres(self) -> str:
        """Its GPUs, with their model if there is one: `gpu:a100:8`."""
        if not self.gpus:
            return "(null)"
        models = {short_model(each) for each in self.status["gpu_models"]}
        return f"gpu:{models.pop()}:{self.gpus}" if len(models) == 1 else f"gpu:{self.gpus}"

    @cached_property
    def used_gpus(self) -> int:
        """How many GPUs have work on them."""
        return len({card for job in self.jobs for card in job.row["cards"]})

    @property
    def used_cpus(self) -> int:
        """Processors that are counted for what runs."""
        return min(sum(job.cpus for job in self.jobs), self.cpus)

    @property
    def used_memory_mib(self) -> int:
        """Memory that is counted for what runs."""
        return min(sum(job.memory_mib for job in self.jobs), self.memory_mib)

    @property
    def state(self) -> str:
        """Whether all, some or none of it is in use."""
        if not self.jobs:
            return "idle"
        return "allocated" if self.gpus and self.used_gpus >= self.gpus else "mixed"

    @property
    def short_state(self) -> str:
        """The same in Slurm's short form."""
        return {"idle": "idle", "allocated": "alloc", "mixed": "mix"}[self.state]

    @property
    def load(self) -> str:
        """The load of the machine."""
        return f"{os.getloadavg()[0]:.2f}"

    @property
    def free_mib(self) -> int:
        """Memory of the machine that nothing uses."""
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemFree:"):
                    return int(line.split()[1]) >> 10
        return 0


def look(pool: SlurmPool) -> Machine:
    """The machine now."""
    status = pool.get("/status")
    return Machine(status, tuple(selection.find(pool, Wanted(states=ACTIVE))))


def short_model(name: str) -> str:
    """A model as Slurm's types are written: one word in small letters."""
    words = name.lower().replace("nvidia", "").replace("(simgpu)", "").split()
    return "-".join(words) or "gpu"


def node_lines(machine: Machine) -> list[str]:
    """The lines of `scontrol show node`."""
    boot = times.stamp(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))
    system = os.uname()
    used = f"gpu:{machine.used_gpus}"
    return [
        f"NodeName={machine.host} Arch={system.machine} CoresPerSocket={machine.cpus} ",
        f"   CPUAlloc={machine.used_cpus} CPUEfctv={machine.cpus} CPUTot={machine.cpus} "
        f"CPULoad={machine.load}",
        "   AvailableFeatures=(null)",
        "   ActiveFeatures=(null)",
        f"   Gres={machine.gres}",
        *([f"   GresUsed={used}"] if machine.gpus else []),
        f"   NodeAddr={machine.host} NodeHostName={machine.host} Version={VERSION}",
        f"   OS={system.sysname} {system.release} ",
        f"   RealMemory={machine.memory_mib} AllocMem={machine.used_memory_mib} "
        f"FreeMem={machine.free_mib} Sockets=1 Boards=1",
        f"   State={machine.state.upper()} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "
        "MCS_label=N/A",
        f"   Partitions={PARTITION} ",
        f"   BootTime={boot} SlurmdStartTime={_up(machine)}",
        f"   LastBusyTime={times.stamp(time.time())}",
        f"   CfgTRES=cpu={machine.cpus},mem={machine.memory_mib}M,billing={machine.cpus}"
        + (f",gres/gpu={machine.gpus}" if machine.gpus else ""),
        f"   AllocTRES={_allocated(machine)}",
        "   CapWatts=n/a",
        "   CurrentWatts=0 AveWatts=0",
        "   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s",
    ]


def _up(machine: Machine) -> str:
    return times.stamp(time.time() - machine.status["up_s"])


def _allocated(machine: Machine) -> str:
    if not machine.jobs:
        return ""
    text = f"cpu={machine.used_cpus},mem={machine.used_memory_mib}M"
    return text + (f",gres/gpu={machine.used_gpus}" if machine.used_gpus else "")


def partition_lines(machine: Machine) -> list[str]:
    """The lines of `scontrol show partition`."""
    return [
        f"PartitionName={PARTITION}",
        "   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
        "   AllocNodes=ALL Default=YES QoS=N/A",
        "   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
        "   MaxNodes=1 MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
        f"   Nodes={machine.host}",
        "   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO",
        "   OverTimeLimit=NONE PreemptMode=OFF",
        f"   State=UP TotalCPUs={machine.cpus} TotalNodes=1 SelectTypeParameters=NONE",
        "   JobDefaults=(null)",
        "   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED",
        f"   TRES=cpu={machine.cpus},mem={machine.memory_mib}M,node=1,billing={machine.cpus}"
        + (f",gres/gpu={machine.gpus}" if machine.gpus else ""),
    ]


def config_lines(machine: Machine) -> Iterator[str]:
    """The lines of `scontrol show config`: what tools ask for."""
    yield f"Configuration data as of {times.stamp(time.time())}"
    for name, value in (
        ("AccountingStorageEnforce", "none"),
        ("AccountingStorageType", "accounting_storage/moiety"),
        ("ClusterName", "moiety"),
        ("DefMemPerNode", "UNLIMITED"),
        ("FirstJobId", "1"),
        ("GresTypes", "gpu"),
        ("JobRequeue", "1"),
        ("KillWait", "10 sec"),
        ("MaxArraySize", str(MAX_ARRAY_SIZE)),
        ("MaxJobCount", "1000000"),
        ("MaxStepCount", "40000"),
        ("MinJobAge", MIN_JOB_AGE),
        ("MpiDefault", "none"),
        ("PreemptMode", "REQUEUE"),
        ("ProctrackType", "proctrack/moiety"),
        ("SchedulerType", "sched/moiety"),
        ("SelectType", "select/moiety"),
        ("SLURM_VERSION", VERSION),
        ("SlurmctldHost[0]", machine.host),
    ):
        yield f"{name:<23} = {value}"
