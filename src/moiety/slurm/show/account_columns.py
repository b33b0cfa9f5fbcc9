"""The columns of `sacct`, for jobs and for their batch steps."""

from __future__ import annotations

import pwd
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from moiety.slurm.show import times
from moiety.slurm.show.columns import Column
from moiety.slurm.show.jobs import SlurmJob
from moiety.slurm.show.queue_columns import group_of
from moiety.slurm.show.states import BEGUN, JobState


@dataclass(frozen=True)
class AccountLine:
    """A line of `sacct`: a job, or one of its steps."""

    job: SlurmJob
    step: str = ""
    """Its name, such as `batch`; empty: the job itself."""

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self.job.is_over


def state_of(line: AccountLine) -> str:
    """Its state; who cancelled it is said by number."""
    state = line.job.state
    if state in BEGUN:
        return JobState.RUNNING.name
    if state is JobState.CANCELLED and not line.step:
        reason = str(line.job.row["reason"])
        return f"CANCELLED by {_uid_of(reason.removeprefix('cancelled by '), line.job)}"
    return state.name


def _uid_of(name: str, job: SlurmJob) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return int(job.row["uid"])


def reason_of(line: AccountLine) -> str:
    """Why it waited or failed, in Slurm's word."""
    return line.job.reason


def _of_job(value: Callable[[SlurmJob], str]) -> Callable[[AccountLine], str]:
    """A value that steps do not have."""
    return lambda line: "" if line.step else value(line.job)


def _of_step(value: Callable[[SlurmJob], str]) -> Callable[[AccountLine], str]:
    """A value that only steps have."""
    return lambda line: value(line.job) if line.step else ""


def _both(value: Callable[[SlurmJob], str]) -> Callable[[AccountLine], str]:
    return lambda line: value(line.job)


def _id(shown: str, line: AccountLine) -> str:
    return f"{shown}.{line.step}" if line.step else shown


def _used(name: str, job: SlurmJob) -> float:
    return float(job.row.get(name) or 0.0)


def _rss(job: SlurmJob) -> str:
    kib = job.row.get("max_rss_kib")
    return f"{kib}K" if kib is not None else ""


def requested(job: SlurmJob) -> str:
    """What it asked for, as Slurm writes trackable resources."""
    return tres(job, with_billing=True)


def tres(job: SlurmJob, *, with_billing: bool = False) -> str:
    """Processors, memory, GPUs."""
    parts = [f"billing={job.cpus}"] if with_billing else []
    parts.append(f"cpu={job.cpus}")
    if job.row["gpus"]:
        parts.append(f"gres/gpu={job.row['gpus']}")
    if job.memory_mib:
        parts.append(f"mem={memory(job)}")
    return ",".join([*parts, "node=1"])


def memory(job: SlurmJob) -> str:
    """Memory of the machine that it asked for: `4G`, `500M`."""
    mib = job.memory_mib
    return f"{mib >> 10}G" if mib and mib % 1024 == 0 else f"{mib}M"


def _allocated(job: SlurmJob) -> str:
    return tres(job, with_billing=True) if job.row["began_s"] else ""


def _limit(job: SlurmJob) -> str:
    return "UNLIMITED" if job.limit_s is None else times.full(job.limit_s)


def _end(job: SlurmJob) -> str:
    return times.stamp(job.row["ended_s"])


def _start(job: SlurmJob) -> str:
    return times.stamp(job.row["began_s"] or job.row["ended_s"])


def _cpu_seconds(job: SlurmJob) -> int:
    return int(job.ran_s) * job.cpus


def _waited(job: SlurmJob) -> float:
    began_s = job.row["began_s"] or job.row["ended_s"] or job.now_s
    return float(max(began_s - job.row["submitted_s"], 0.0))


def _name(line: AccountLine) -> str:
    return line.step or line.job.name


def _fixed(text: str) -> Callable[[AccountLine], str]:
    return lambda _: text


def _gres(job: SlurmJob) -> str:
    return f"gpu:{job.row['gpus']}" if job.row["gpus"] else ""


def _gid(job: SlurmJob) -> int:
    try:
        return pwd.getpwuid(job.row["uid"]).pw_gid
    except KeyError:
        return int(job.row["uid"])


_TABLE: Final[tuple[Column[AccountLine], ...]] = (
    Column("Account", _both(lambda job: job.account), 10),
    Column("AdminComment", _fixed(""), 19),
    Column("AllocCPUS", _both(lambda job: str(job.cpus if job.row["began_s"] else 0)), 10),
    Column("AllocGRES", _both(lambda job: _gres(job) if job.row["began_s"] else ""), 12),
    Column("AllocNodes", _both(lambda job: str(int(bool(job.row["began_s"])))), 10),
    Column("AllocTRES", _both(_allocated), 10),
    Column("AveCPU", _of_step(lambda job: times.full(_used("user_s", job)
                                                     + _used("system_s", job))), 10),
    Column("AveRSS", _of_step(_rss), 10),
    Column("AveVMSize", _fixed(""), 10),
    Column("Cluster", _fixed("moiety"), 10),
    Column("Comment", _of_job(lambda job: job.labels.comment), 14),
    Column("Constraints", _of_job(lambda job: job.labels.features), 15),
    Column("ConsumedEnergy", _fixed("0"), 14),
    Column("CPUTime", _both(lambda job: times.full(_cpu_seconds(job))), 10),
    Column("CPUTimeRAW", _both(lambda job: str(_cpu_seconds(job))), 10),
    Column("DerivedExitCode", _of_job(lambda job: job.exit_text), 15),
    Column("Elapsed", _both(lambda job: times.full(job.ran_s)), 10),
    Column("ElapsedRaw", _both(lambda job: str(int(job.ran_s))), 10),
    Column("Eligible", _of_job(lambda job: times.stamp(
        max(job.row["submitted_s"], job.row["begin_after_s"]))), 19),
    Column("End", _both(_end), 19),
    Column("ExitCode", _both(lambda job: job.exit_text), 8),
    Column("Flags", _fixed(""), 20),
    Column("GID", _of_job(lambda job: str(_gid(job))), 6),
    Column("Group", _of_job(group_of), 9),
    Column("JobID", lambda line: _id(line.job.shown_id, line), -12),
    Column("JobIDRaw", lambda line: _id(str(line.job.number), line), -12),
    Column("JobName", _name, 10),
    Column("Layout", _fixed(""), 9),
    Column("MaxDiskRead", _fixed(""), 12),
    Column("MaxDiskWrite", _fixed(""), 12),
    Column("MaxRSS", _of_step(_rss), 10),
    Column("MaxVMSize", _fixed(""), 10),
    Column("NCPUS", _both(lambda job: str(job.cpus)), 10),
    Column("NNodes", _fixed("1"), 8),
    Column("NodeList", _both(lambda job: job.nodes or "None assigned"), 15),
    Column("NTasks", _of_step(lambda _: "1"), 8),
    Column("Partition", _of_job(lambda job: job.partition), 10),
    Column("Planned", _of_job(lambda job: times.full(_waited(job))), 10),
    Column("Priority", _of_job(lambda job: str(max(1, (1 << 31) + job.row["priority"]))), 10),
    Column("QOS", _of_job(lambda job: job.labels.qos), 10),
    Column("Reason", _of_job(lambda job: job.reason), 22),
    Column("ReqCPUS", _both(lambda job: str(job.cpus)), 8),
    Column("ReqGRES", _of_job(_gres), 12),
    Column("ReqMem", _of_job(lambda job: memory(job) if job.memory_mib else ""), 10),
    Column("ReqNodes", _of_job(lambda _: "1"), 8),
    Column("ReqTRES", _of_job(requested), 10),
    Column("Reservation", _of_job(lambda job: job.labels.reservation), 20),
    Column("Reserved", _of_job(lambda job: times.full(_waited(job))), 10),
    Column("Restarts", _of_job(lambda job: str(job.row["restarts"])), 8),
    Column("Start", _both(_start), 19),
    Column("State", state_of, 10),
    Column("Submit", _both(lambda job: times.stamp(job.row["submitted_s"])), 19),
    Column("SubmitLine", _of_job(lambda job: job.row["command"]), 20),
    Column("Suspended", _both(lambda job: times.full(job.row["suspended_s"])), 10),
    Column("SystemCPU", _both(lambda job: times.cpu(_used("system_s", job))), 10),
    Column("Timelimit", _of_job(_limit), 10),
    Column("TimelimitRaw", _of_job(lambda job: "UNLIMITED" if job.limit_s is None
                                   else str(int(job.limit_s // 60))), 12),
    Column("TotalCPU", _both(lambda job: times.cpu(_used("user_s", job)
                                                   + _used("system_s", job))), 10),
    Column("TRESUsageInMax", _of_step(lambda job: f"mem={_rss(job)}" if _rss(job) else ""), 14),
    Column("UID", _of_job(lambda job: str(job.row["uid"])), 6),
    Column("User", _of_job(lambda job: job.row["user"]), 9),
    Column("UserCPU", _both(lambda job: times.cpu(_used("user_s", job))), 10),
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
        "name": row["name"],
        "nodes": job.nodes,
        "partition": job.partition,
        "state": {"current": state_of(AccountLine(job)).split(" ")[0], "reason": job.reason},
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
