"""The steps that run: for `squeue -s`, `scontrol show step`, and `scancel` of one step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from moiety.slurm import times
from moiety.slurm.pool import SlurmPool
from moiety.slurm.show import selection
from moiety.slurm.show.account_columns import tres
from moiety.slurm.show.account_lines import BATCH, AccountLine, steps_of
from moiety.slurm.show.columns import Column
from moiety.slurm.show.jobids import JobId
from moiety.slurm.show.jobs import NULL, SlurmJob
from moiety.slurm.step.record import DAMAGED, STEPS, records_in

"""What a record raises that its user has changed."""


def running(jobs: Iterable[SlurmJob], only: Sequence[JobId] = ()) -> list[AccountLine]:
    """The steps of these jobs that have not ended; of `only`, if it names any, no others."""
    found = []
    for job in jobs:
        lines = [] if job.is_over else [line for line in steps_of(job) if not line.was_told]
        lines.sort(key=lambda line: line.step == BATCH)
        found += [line for line in lines if not only or any(_is_named(each, line) for each in only)]
    return found


def _is_named(wanted: JobId, line: AccountLine) -> bool:
    return selection.names(wanted, line.job) and wanted.step in ("", line.step)


def id_of(line: AccountLine) -> str:
    """`12.0`, `12_3.0`, `12.batch`."""
    return f"{line.job.shown_id}.{line.step}"


def _gres(line: AccountLine) -> str:
    return f"gres:gpu:{line.gpus}" if line.record and line.gpus else NULL


LETTERS: Final[dict[str, Column[AccountLine]]] = {
    "A": Column("TASKS", lambda line: str(line.tasks)),
    "b": Column("TRES_PER_JOB", _gres),
    "i": Column("STEPID", id_of),
    "j": Column("NAME", lambda line: line.name),
    "l": Column("TIME_LIMIT", lambda _: "UNLIMITED"),
    "M": Column("TIME", lambda line: times.short(line.ran_s)),
    "N": Column("NODELIST", lambda line: line.job.nodes),
    "P": Column("PARTITION", lambda line: line.job.partition),
    "S": Column("START_TIME", lambda line: times.stamp(line.began_s, "N/A")),
    "u": Column("USER", lambda line: line.job.row["user"]),
    "U": Column("UID", lambda line: str(line.job.row["uid"])),
}
"""The columns of `squeue -s -o`."""
NAMES: Final[dict[str, Column[AccountLine]]] = {
    "jobid": Column("JOBID", lambda line: str(line.job.number)),
    "nodes": LETTERS["N"],
    "numtasks": LETTERS["A"],
    "partition": LETTERS["P"],
    "starttime": LETTERS["S"],
    "stepid": LETTERS["i"],
    "stepname": LETTERS["j"],
    "stepstate": Column("STATE", lambda line: line.state),
    "timelimit": LETTERS["l"],
    "timeused": LETTERS["M"],
    "userid": LETTERS["U"],
    "username": LETTERS["u"],
}
"""Those of `squeue -s -O`, by their names without dashes and in small letters."""


def lines_of(line: AccountLine, pid: int) -> list[str]:
    """A step as `scontrol show step` has it; `pid` is that of its `srun`, or 0."""
    job, is_batch = line.job, line.step == BATCH
    layout = "" if is_batch else f" Dist={'Block' if line.tasks > 1 else 'Cyclic'}"
    return [
        f"StepId={id_of(line)} UserId={job.row['uid']} StartTime={times.stamp(line.began_s)} "
        "TimeLimit=UNLIMITED",
        f"   State={line.state} Partition={job.partition} NodeList={job.nodes}",
        f"   Nodes=1 CPUs={0 if is_batch else line.cpus} Tasks={line.tasks} Name={line.name} "
        "Network=(null)",
        f"   TRES={NULL if is_batch else tres(line)}",
        "   ResvPorts=(null)",
        f"   CPUFreqReq=Default{layout}",
        f"   SrunHost:Pid={NULL if is_batch else job.nodes}:{pid}",
    ]


@dataclass(frozen=True, slots=True)
class StepRunner:
    """The `srun` that runs a step."""

    number: int
    """Of the step, in its job."""
    pid: int
    start_ticks: int
    """When it started, as the kernel has it: a later process with this pid is another one."""


def runners_of(pool: SlurmPool, job: SlurmJob) -> Iterator[StepRunner]:
    """Those of the steps of a job that run.

    Only the user of the job, and root, can read who they are: others get none. It is what that
    user wrote, so who signals them looks whose they are.
    """
    for folder in dict.fromkeys((pool.paths.agent.path, pool.paths.socket.parent)):
        for number, _, step in records_in(folder / "spool" / str(job.number) / STEPS):
            with contextlib.suppress(*DAMAGED):
                runner = StepRunner(number, int(step["pid"]), int(step["start_ticks"]))
                if step.get("ended_s") is None:
                    yield runner
