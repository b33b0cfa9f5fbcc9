"""Real Slurm on this machine, in a folder of its own: what our words are compared with."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from moiety.testing.waiting import until
from tests.support import slurm_accounts
from tests.support.slurm_accounts import Accounts

PROGRAMS: Final = ("slurmctld", "slurmd", "sbatch", "scontrol")
CPUS: Final = 64
MEMORY_MIB: Final = 512_000
FIRST_JOB: Final = 101
"""The number of the first job: above those of tasks and ranks, so that names tell them apart."""
GPUS: Final = 8
MEMORY_DEFAULT_MIB: Final = 100
"""Of each processor, without --mem: else a job would have all of it."""

CONFIGURATION: Final = """\
ClusterName=oracle
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu,shard
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/d.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/d.log
{accounting}JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.txt
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=3600
FirstJobId={first}
UnkillableStepTimeout=15
DefMemPerCPU={default}
SchedulerType=sched/backfill
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} \
  TmpDisk=900000 {features} State=UNKNOWN
PartitionName=pool Nodes={host} Default=YES MaxTime=INFINITE State=UP
{partitions}
"""
PARTITION: Final = "PartitionName={name} Nodes={host} MaxTime=INFINITE State=UP"


def missing() -> list[str]:
    """The programs of Slurm that are not installed."""
    return [
        name
        for name in PROGRAMS
        if not (Path("/usr/bin") / name).exists() and not (Path("/usr/sbin") / name).exists()
    ]


def free_ports(number: int) -> list[int]:
    """Ports that nothing listens at."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


class Oracle:
    """One controller and one node; both end with it."""

    def __init__(
        self,
        folder: Path,
        partitions: Iterable[str] = (),
        features: Iterable[str] = (),
        *,
        has_accounts: bool = False,
    ) -> None:
        """`partitions` and `features` are names that scripts use; `sacct` needs accounts."""
        self.folder = folder
        self.host = socket.gethostname().partition(".")[0]
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        for at in range(GPUS):
            os.mknod(folder / f"nvidia{at}", 0o20666, os.makedev(195, at))
        *ports, port = free_ports(3)
        accounting = slurm_accounts.CONFIGURATION.format(port=port) if has_accounts else ""
        configuration = CONFIGURATION.format(
            host=self.host, folder=folder, ports=ports, cpus=CPUS, accounting=accounting,
            memory=MEMORY_MIB, gpus=GPUS, first=FIRST_JOB, default=MEMORY_DEFAULT_MIB,
            partitions="\n".join(PARTITION.format(name=n, host=self.host) for n in partitions),
            features=f"Feature={','.join(features)}" if features else "",
        )  # fmt: skip
        (folder / "slurm.conf").write_text(configuration)
        (folder / "gres.conf").write_text(
            f"NodeName={self.host} Name=gpu File={folder}/nvidia[0-{GPUS - 1}]\n"
        )
        self.environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(folder),
            "USER": "root",
            "SLURM_CONF": str(folder / "slurm.conf"),
        }
        self._accounts = Accounts(folder, port, self.environment) if has_accounts else None
        self._processes = [self._daemon("slurmctld"), self._daemon("slurmd", "-N", self.host)]
        until(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T").stdout, "Slurm's node is idle")

    def _daemon(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.out").open("wb") as output:
            return subprocess.Popen(
                [name, "-D", "-f", str(self.folder / "slurm.conf"), *options],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def run(
        self, *words: str, cwd: Path | None = None, stdin: str | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's programs."""
        return subprocess.run(
            words, cwd=cwd or self.folder, env=self.environment | variables, text=True,
            input=stdin or "", capture_output=True, timeout=60,
        )  # fmt: skip

    def job(self, number: str) -> dict[str, str]:
        """What `scontrol -o show job` says of one job."""
        shown = self.run("scontrol", "-o", "show", "job", number).stdout.strip()
        return dict(part.split("=", 1) for part in shown.split() if "=" in part)

    def ended(self, numbers: Sequence[str]) -> None:
        """Wait until these jobs are over."""
        wanted = set(numbers)

        def is_over() -> bool:
            live = self.run("squeue", "-h", "-o", "%A").stdout.split()
            return not wanted.intersection(live)

        until(is_over, "Slurm's jobs are over")

    def mend(self) -> None:
        """Take its node back into use: it drains itself where it could not end a step in time."""
        if "drain" in self.run("sinfo", "-h", "-o", "%T").stdout:
            for job in self.run("squeue", "-h", "-o", "%A").stdout.split():
                self.run("scancel", job)
            self.run("scontrol", "update", f"nodename={self.host}", "state=resume")

    def close(self) -> None:
        """End all of it."""
        for each in reversed(self._processes):
            each.send_signal(signal.SIGTERM)
        for each in self._processes:
            try:
                each.wait(10)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
        if self._accounts:
            self._accounts.close()
