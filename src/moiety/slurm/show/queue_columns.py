"""The columns of `squeue`: by letter, and by name for `-O`."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable
from typing import Final

from moiety.slurm import times
from moiety.slurm.show.columns import Column
from moiety.slurm.show.jobs import NULL, SlurmJob


def group_of(job: SlurmJob) -> str:
    """The group of the job's user."""
    try:
        return grp.getgrgid(pwd.getpwuid(job.row["uid"]).pw_gid).gr_name
    except KeyError:
        return str(job.row["uid"])


def limit_of(job: SlurmJob) -> str:
    """Its time limit."""
    return "UNLIMITED" if job.limit_s is None else times.short(job.limit_s)


def left_of(job: SlurmJob) -> str:
    """What is left of its time limit."""
    if job.limit_s is None:
        return "UNLIMITED"
    return "0:00" if job.is_over else times.short(job.limit_s - job.ran_s)


def where(job: SlurmJob) -> str:
    """Where it runs, or why not."""
    if job.waits or (job.is_over and job.reason != "None"):
        return f"({job.reason})"
    return job.nodes


def memory_of(job: SlurmJob) -> str:
    """Memory of the machine: `4G`, `500M`, 0 for none."""
    mib = job.labels.mem_per_cpu_mib or job.memory_mib
    if not mib:
        return "0"
    return f"{mib >> 10}G" if mib % 1024 == 0 else f"{mib}M"


def sentence_of(job: SlurmJob) -> str:
    """The engine's sentence, or what was written down."""
    return job.why or str(job.row["reason"]) or job.reason


def shown(value: str) -> str:
    """What Slurm shows of a value that was not said."""
    return value or NULL


def _labelled(name: str) -> Callable[[SlurmJob], str]:
    return lambda job: shown(str(getattr(job.labels, name)))


def _fixed(text: str) -> Callable[[SlurmJob], str]:
    return lambda _: text


def _priority(job: SlurmJob) -> str:
    return str(0 if job.row["state"] == "held" else max(1, (1 << 31) + job.row["priority"]))


_ACCOUNT: Final[Column[SlurmJob]] = Column("ACCOUNT", lambda job: job.account)
_DEPENDENCY: Final[Column[SlurmJob]] = Column("DEPENDENCY", lambda job: shown(job.dependency))
_TRES: Final[Column[SlurmJob]] = Column("TRES_PER_NODE", lambda job: job.gres or "N/A")
_PARTITION: Final[Column[SlurmJob]] = Column("PARTITION", lambda job: job.partition)
_PRIORITY: Final[Column[SlurmJob]] = Column("PRIORITY", _priority)
_START: Final[Column[SlurmJob]] = Column("START_TIME", lambda job: times.stamp(job.start_s, "N/A"))

LETTERS: Final[dict[str, Column[SlurmJob]]] = {
    "a": _ACCOUNT,
    "A": Column("JOBID", lambda job: str(job.number)),
    "b": _TRES,
    "B": Column("EXEC_HOST", lambda job: job.nodes or "n/a"),
    "c": Column("MIN_CPUS", lambda job: str(job.labels.cpus_per_task or 1)),
    "C": Column("CPUS", lambda job: str(job.cpus)),
    "d": Column("MIN_TMP_DISK", _fixed("0")),
    "D": Column("NODES", _fixed("1")),
    "e": Column("END_TIME", lambda job: times.stamp(job.end_s, "N/A")),
    "E": _DEPENDENCY,
    "f": Column("FEATURES", _labelled("features")),
    "F": Column("ARRAY_JOB_ID", lambda job: str(job.array or job.number)),
    "g": Column("GROUP", group_of),
    "G": Column("GROUP", lambda job: str(_gid(job))),
    "h": Column("OVER_SUBSCRIBE", lambda job: "NO" if job.labels.exclusive else "OK"),
    "H": Column("SOCKETS_PER_NODE", _fixed("*")),
    "i": Column("JOBID", lambda job: job.shown_id),
    "I": Column("CORES_PER_SOCKET", _fixed("*")),
    "j": Column("NAME", lambda job: job.name),
    "J": Column("THREADS_PER_CORE", _fixed("*")),
    "k": Column("COMMENT", _labelled("comment")),
    "K": Column("ARRAY_TASK_ID", lambda job: job.tasks_text),
    "l": Column("TIME_LIMIT", limit_of),
    "L": Column("TIME_LEFT", left_of),
    "m": Column("MIN_MEMORY", memory_of),
    "M": Column("TIME", lambda job: times.short(job.ran_s)),
    "n": Column("REQ_NODES", lambda job: job.labels.node_list),
    "N": Column("NODELIST", lambda job: job.nodes),
    "o": Column("COMMAND", lambda job: shown(job.command)),
    "O": Column("CONTIGUOUS", _fixed("0")),
    "p": Column("PRIORITY", lambda job: f"{int(_priority(job)) / (1 << 32):.14f}"),
    "P": _PARTITION,
    "q": Column("QOS", _labelled("qos")),
    "Q": _PRIORITY,
    "r": Column("REASON", lambda job: job.reason),
    "R": Column("NODELIST(REASON)", where),
    "s": Column("", _fixed("")),
    "S": _START,
    "t": Column("ST", lambda job: job.state.value),
    "T": Column("STATE", lambda job: job.state.name),
    "u": Column("USER", lambda job: job.row["user"]),
    "U": Column("UID", lambda job: str(job.row["uid"])),
    "v": Column("RESERVATION", _labelled("reservation")),
    "V": Column("SUBMIT_TIME", lambda job: times.stamp(job.row["submitted_s"])),
    "w": Column("WCKEY", _labelled("wckey")),
    "W": Column("LICENSES", _labelled("licenses")),
    "x": Column("EXC_NODES", lambda job: job.labels.exclude),
    "X": Column("CORE_SPEC", _fixed("N/A")),
    "y": Column("NICE", lambda job: str(job.nice)),
    "Y": Column("SCHEDNODES", _fixed(NULL)),
    "z": Column("S:C:T", _fixed("*:*:*")),
    "Z": Column("WORK_DIR", lambda job: job.work_dir or NULL),
}  # fmt: skip


def _gid(job: SlurmJob) -> int:
    try:
        return pwd.getpwuid(job.row["uid"]).pw_gid
    except KeyError:
        return int(job.row["uid"])


NAMES: Final[dict[str, Column[SlurmJob]]] = {
    "account": LETTERS["a"],
    "arrayjobid": LETTERS["F"],
    "arraytaskid": LETTERS["K"],
    "batchflag": Column("BATCH_FLAG", lambda job: str(int(job.labels.program == "sbatch"))),
    "batchhost": LETTERS["B"],
    "command": LETTERS["o"],
    "comment": LETTERS["k"],
    "cpuspertask": Column("CPUS_PER_TASK", lambda job: str(job.labels.cpus_per_task or "N/A")),
    "dependency": _DEPENDENCY,
    "endtime": LETTERS["e"],
    "excnodes": LETTERS["x"],
    "exitcode": Column("EXIT_CODE", lambda job: str(job.row["exit_code"] or 0)),
    "feature": LETTERS["f"],
    "gres": _TRES,
    "groupid": LETTERS["G"],
    "groupname": LETTERS["g"],
    "jobarrayid": Column("JOBID", lambda job: job.shown_id),
    "jobid": LETTERS["A"],
    "licenses": LETTERS["W"],
    "maxcpus": Column("MAX_CPUS", _fixed("0")),
    "maxnodes": Column("MAX_NODES", _fixed("0")),
    "mincpus": LETTERS["c"],
    "minmemory": LETTERS["m"],
    "name": LETTERS["j"],
    "nice": LETTERS["y"],
    "nodelist": LETTERS["N"],
    "nodes": LETTERS["N"],
    "numcpus": LETTERS["C"],
    "numnodes": LETTERS["D"],
    "numtasks": Column("TASKS", lambda job: str(job.labels.tasks)),
    "partition": _PARTITION,
    "priority": LETTERS["p"],
    "prioritylong": _PRIORITY,
    "qos": LETTERS["q"],
    "reason": LETTERS["r"],
    "reasonlist": Column("NODELIST(REASON)", lambda job: f"({sentence_of(job)})" if job.waits
                         else where(job)),
    "reqnodes": LETTERS["n"],
    "requeue": Column("REQUEUE", lambda job: str(int(job.row["requeue"]))),
    "restartcnt": Column("RESTART_COUNT", lambda job: str(job.row["restarts"])),
    "schednodes": LETTERS["Y"],
    "starttime": _START,
    "state": LETTERS["T"],
    "statecompact": LETTERS["t"],
    "stderr": Column("STDERR", lambda job: job.row["stderr"]),
    "stdin": Column("STDIN", lambda job: job.labels.stdin or "/dev/null"),
    "stdout": Column("STDOUT", lambda job: job.row["stdout"]),
    "submittime": LETTERS["V"],
    "timeleft": LETTERS["L"],
    "timelimit": LETTERS["l"],
    "timeused": LETTERS["M"],
    "tres": Column("TRES", lambda job: job.gres.replace("gres:gpu:", "gres/gpu=") or "N/A"),
    "trespernode": _TRES,
    "userid": LETTERS["U"],
    "username": LETTERS["u"],
    "wckey": LETTERS["w"],
    "workdir": LETTERS["Z"],
}  # fmt: skip
"""By the name that `-O` takes, without dashes and in small letters."""
