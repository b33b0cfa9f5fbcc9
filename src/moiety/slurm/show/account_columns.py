"""The columns of `sacct`, for jobs and for their steps."""

from __future__ import annotations

import pwd
from collections.abc import Callable
from typing import Any, Final

from moiety.slurm import times
from moiety.slurm.show.account_lines import BATCH, AccountLine, derived_exit
from moiety.slurm.show.columns import Column
from moiety.slurm.show.jobs import SlurmJob
from moiety.slurm.show.queue_columns import group_of


def _of_job(value: Callable[[SlurmJob], str]) -> Callable[[AccountLine], str]:
    """A value that steps do not have."""
    return lambda line: "" if line.step else value(line.job)


def _both(value: Callable[[SlurmJob], str]) -> Callable[[AccountLine], str]:
    return lambda line: value(line.job)


def _id(shown: str, line: AccountLine) -> str:
    return f"{shown}.{line.step}" if line.step else shown


def _used(line: AccountLine, *names: str) -> float:
    """Processor time. It is counted for a job as a whole, and its batch step shows it."""
    return 0.0 if line.record else sum(float(line.job.row.get(name) or 0.0) for name in names)


def _rss(line: AccountLine) -> str:
    kib = line.job.row.get("max_rss_kib")
    return f"{kib}K" if line.step == BATCH and kib is not None else ""


def tres(line: AccountLine) -> str:
    """Processors, memory and GPUs, as Slurm writes trackable resources; only jobs are billed."""
    parts = [] if line.step else [f"billing={line.cpus}"]
    parts.append(f"cpu={line.cpus}")
    if line.gpus:
        parts.append(f"gres/gpu={line.gpus}")
    if line.job.memory_mib:
        parts.append(f"mem={memory(line.job)}")
    return ",".join([*parts, "node=1"])


def memory(job: SlurmJob) -> str:
    """Memory of the machine that it asked for: `4G`, `500M`."""
    mib = job.memory_mib
    return f"{mib >> 10}G" if mib and mib % 1024 == 0 else f"{mib}M"


def _allocated(line: AccountLine) -> str:
    return tres(line) if line.job.row["began_s"] else ""


def _limit(job: SlurmJob) -> str:
    return "UNLIMITED" if job.limit_s is None else times.full(job.limit_s)


def _cpu_seconds(line: AccountLine) -> int:
    return int(line.ran_s) * line.cpus


def _submitted(line: AccountLine) -> str:
    return times.stamp(line.began_s if line.step else line.job.row["submitted_s"])


def _waited(job: SlurmJob) -> float:
    began_s = job.row["began_s"] or job.row["ended_s"] or job.now_s
    return float(max(began_s - job.row["submitted_s"], 0.0))


def _fixed(text: str) -> Callable[[AccountLine], str]:
    return lambda _: text


def _gres(line: AccountLine) -> str:
    return f"gpu:{line.gpus}" if line.gpus else ""


def _layout(line: AccountLine) -> str:
    """How tasks are laid out over nodes, of which there is one."""
    if not line.record:
        return "Unknown" if line.step else ""
    return "Block" if line.tasks > 1 else "Cyclic"


def _mean_cpu(line: AccountLine) -> str:
    return times.full(_used(line, "user_s", "system_s")) if line.step == BATCH else ""


def _rss_in_tres(line: AccountLine) -> str:
    return f"mem={_rss(line)}" if _rss(line) else ""


def _gid(job: SlurmJob) -> int:
    try:
        return pwd.getpwuid(job.row["uid"]).pw_gid
    except KeyError:
        return int(job.row["uid"])


_TABLE: Final[tuple[Column[AccountLine], ...]] = (
    Column("Account", _both(lambda job: job.account), 10),
    Column("AdminComment", _fixed(""), 19),
    Column("AllocCPUS", lambda line: str(line.cpus if line.job.row["began_s"] else 0), 10),
    Column("AllocGRES", lambda line: _gres(line) if line.job.row["began_s"] else "", 12),
    Column("AllocNodes", _both(lambda job: str(int(bool(job.row["began_s"])))), 10),
    Column("AllocTRES", _allocated, 10),
    Column("AveCPU", _mean_cpu, 10),
    Column("AveRSS", _rss, 10),
    Column("AveVMSize", _fixed(""), 10),
    Column("Cluster", _fixed("moiety"), 10),
    Column("Comment", _of_job(lambda job: job.labels.comment), 14),
    Column("Constraints", _of_job(lambda job: job.labels.features), 15),
    Column("ConsumedEnergy", _fixed("0"), 14),
    Column("CPUTime", lambda line: times.full(_cpu_seconds(line)), 10),
    Column("CPUTimeRAW", lambda line: str(_cpu_seconds(line)), 10),
    Column("DerivedExitCode", _of_job(derived_exit), 15),
    Column("Elapsed", lambda line: times.full(line.ran_s), 10),
    Column("ElapsedRaw", lambda line: str(int(line.ran_s)), 10),
    Column("Eligible", _of_job(lambda job: times.stamp(job.eligible_s)), 19),
    Column("End", lambda line: times.stamp(line.ended_s), 19),
    Column("ExitCode", lambda line: line.exit_text, 8),
    Column("Flags", _fixed(""), 20),
    Column("GID", _of_job(lambda job: str(_gid(job))), 6),
    Column("Group", _of_job(group_of), 9),
    Column("JobID", lambda line: _id(line.job.shown_id, line), -12),
    Column("JobIDRaw", lambda line: _id(str(line.job.number), line), -12),
    Column("JobName", lambda line: line.name, 10),
    Column("Layout", _layout, 9),
    Column("MaxDiskRead", _fixed(""), 12),
    Column("MaxDiskWrite", _fixed(""), 12),
    Column("MaxRSS", _rss, 10),
    Column("MaxVMSize", _fixed(""), 10),
    Column("NCPUS", lambda line: str(line.cpus), 10),
    Column("NNodes", _fixed("1"), 8),
    Column("NodeList", _both(lambda job: job.nodes or "None assigned"), 15),
    Column("NTasks", lambda line: str(line.tasks) if line.step else "", 8),
    Column("Partition", _of_job(lambda job: job.partition), 10),
    Column("Planned", _of_job(lambda job: times.full(_waited(job))), 10),
    Column("Priority", _of_job(lambda job: str(max(1, (1 << 31) + job.row["priority"]))), 10),
    Column("QOS", _of_job(lambda job: job.labels.qos), 10),
    Column("Reason", _of_job(lambda job: job.reason), 22),
    Column("ReqCPUS", lambda line: str(line.cpus), 8),
    Column("ReqGRES", lambda line: "" if line.step else _gres(line), 12),
    Column("ReqMem", _of_job(lambda job: memory(job) if job.memory_mib else ""), 10),
    Column("ReqNodes", _of_job(lambda _: "1"), 8),
    Column("ReqTRES", lambda line: "" if line.step else tres(line), 10),
    Column("Reservation", _of_job(lambda job: job.labels.reservation), 20),
    Column("Reserved", _of_job(lambda job: times.full(_waited(job))), 10),
    Column("Restarts", _of_job(lambda job: str(job.row["restarts"])), 8),
    Column("Start", lambda line: times.stamp(line.began_s), 19),
    Column("State", lambda line: line.state, 10),
    Column("Submit", _submitted, 19),
    Column("SubmitLine", lambda line: line.command, 20),
    Column("Suspended", _both(lambda job: times.full(job.row["suspended_s"])), 10),
    Column("SystemCPU", lambda line: times.cpu(_used(line, "system_s")), 10),
    Column("Timelimit", _of_job(_limit), 10),
    Column("TimelimitRaw", _of_job(lambda job: "UNLIMITED" if job.limit_s is None
                                   else str(int(job.limit_s // 60))), 12),
    Column("TotalCPU", lambda line: times.cpu(_used(line, "user_s", "system_s")), 10),
    Column("TRESUsageInMax", _rss_in_tres, 14),
    Column("UID", _of_job(lambda job: str(job.row["uid"])), 6),
    Column("User", _of_job(lambda job: job.row["user"]), 9),
    Column("UserCPU", lambda line: times.cpu(_used(line, "user_s")), 10),
    Column("WCKey", _of_job(lambda job: job.labels.wckey), 10),
    Column("WorkDir", _of_job(lambda job: job.work_dir), 20),
)  # fmt: skip


NAMES: Final = {column.title.lower(): column for column in _TABLE}
"""By the name that `--format` takes, in small letters."""
USUAL: Final = "jobid,jobname,partition,account,alloccpus,state,exitcode"
BRIEF: Final = "jobid,state,exitcode"
LONG: Final = (
    "jobid,jobidraw,jobname,partition,maxvmsize,averss,maxrss,ntasks,alloccpus,elapsed,state,"
    "exitcode,reqmem,alloctres"
)


def as_json(job: SlurmJob) -> dict[str, Any]:
    """A job by the names that `sacct --json` has."""
    row = job.row
    return {
        "account": job.account,
        "array": {"job_id": job.array or 0, "task_id": row["array_index"]},
        "comment": {"job": job.labels.comment},
        "derived_exit_code": {"return_code": row["exit_code"] or 0},
        "exit_code": {
            "status": "SIGNALED" if row["exit_signal"] else "SUCCESS" if not row["exit_code"]
            else "ERROR",
            "return_code": row["exit_code"] or 0,
            "signal": {"signal_id": row["exit_signal"]},
        },
        "job_id": job.number,
        "name": job.name,
        "nodes": job.nodes,
        "partition": job.partition,
        "state": {"current": AccountLine(job).state.split(" ")[0], "reason": job.reason},
        "time": {
            "elapsed": int(job.ran_s),
            "start": int(row["began_s"] or 0),
            "end": int(row["ended_s"] or 0),
            "submission": int(row["submitted_s"]),
            "limit": None if job.limit_s is None else int(job.limit_s // 60),
        },
        "user": row["user"],
        "working_directory": job.work_dir,
    }  # fmt: skip
