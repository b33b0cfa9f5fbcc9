"""`squeue`: what runs and waits, in Slurm's columns."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from moiety.slurm.pool import SlurmPool
from moiety.slurm.show import columns, jobids, options, selection, states, steps
from moiety.slurm.show.account_lines import AccountLine
from moiety.slurm.show.columns import Cell
from moiety.slurm.show.jobids import JobId
from moiety.slurm.show.jobs import SlurmJob, folded
from moiety.slurm.show.options import Given, UsageError, fail
from moiety.slurm.show.queue_columns import LETTERS, NAMES
from moiety.slurm.show.selection import Wanted
from moiety.slurm.show.states import JobState

NAME: Final = "squeue"
USUAL: Final = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG: Final = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START: Final = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
STEPS: Final = "%.15i %.8j %.9P %.8u %.9M %N"
OPTIONS: Final = {
    "account=": "A", "all": "a", "array": "r", "array-unique": "", "clusters=": "M",
    "federation": "", "Format=": "O", "format=": "o", "help": "", "hide": "", "iterate=": "i",
    "jobs=": "j", "json": "", "licenses=": "L", "local": "", "long": "l", "me": "", "name=": "n",
    "noconvert": "", "nodelist=": "w", "noheader": "h", "partition=": "p", "priority": "P",
    "qos=": "q", "reservation=": "R", "sibling": "", "sort=": "S", "start": "", "states=": "t",
    "steps": "s", "usage": "", "user=": "u", "users=": "", "verbose": "v", "version": "V",
}  # fmt: skip
LABELS: Final = {"licenses": "licenses", "qos": "qos", "reservation": "reservation"}
HELP: Final = """\
Usage: squeue [-A account] [-h] [-i seconds] [-j jobid] [-l] [--me] [-n name] [-o format]
              [-O format] [-p partition] [-r] [-s [JOB.STEP,...]] [--start]
              [-S fields] [-t states] [-u user] [-w node]
Jobs of the moiety pool of this machine. docs/reference-slurm-commands.md says more."""
SORTS: Final[dict[str, Callable[[SlurmJob], Any]]] = {
    "i": lambda job: job.number,
    "j": lambda job: job.name,
    "M": lambda job: job.ran_s,
    "l": lambda job: job.limit_s or float("inf"),
    "L": lambda job: (job.limit_s or float("inf")) - job.ran_s,
    "p": lambda job: job.row["priority"],
    "P": lambda job: job.partition,
    "Q": lambda job: job.row["priority"],
    "S": lambda job: job.start_s or float("inf"),
    "e": lambda job: job.end_s or float("inf"),
    "t": lambda job: list(JobState).index(job.state),
    "T": lambda job: job.state.name,
    "u": lambda job: job.row["user"],
    "U": lambda job: job.row["uid"],
    "V": lambda job: job.row["submitted_s"],
    "a": lambda job: job.account,
    "C": lambda job: job.cpus,
    "m": lambda job: job.memory_mib,
}
"""What `--sort` can sort by."""


def main(arguments: list[str]) -> int:
    """Run `squeue`; the exit code."""
    try:
        given, words = options.read(NAME, _apart(arguments), OPTIONS)
        only = _steps(words) if given.has("steps") else ()
        if words and not only:
            fail(NAME, f"Unrecognized option: {words[0][:80]}")
        if given.has("help", "usage"):
            print(HELP)
            return 0
        wanted = wanted_of(given)
        lists_steps = given.has("steps") and not given.has("json")
        step_cells = step_cells_of(given) if lists_steps else []
        cells = [] if lists_steps else cells_of(given)
        pause_s = _iterate(given)
    except UsageError as error:
        return options.usage(error)
    while True:
        if lists_steps:
            code = show_steps(given, wanted, step_cells, only)
        else:
            code = show(given, wanted, cells)
        if pause_s is None:
            return code
        sys.stdout.flush()
        time.sleep(pause_s)
        print()


def _apart(arguments: Sequence[str]) -> list[str]:
    """The value of `-s`, which may have one or not, becomes a word of its own."""
    found: list[str] = []
    for each in arguments:
        named = re.fullmatch(r"(--steps?)=(.*)|(-s)(\d.*)", each)
        found += [part for part in named.groups() if part is not None] if named else [each]
    return found


def _steps(words: Sequence[str]) -> tuple[JobId, ...]:
    """Steps as they are named after `-s`: `12.0`, `12_3.1,12_3.2`."""
    try:
        found = [each for word in words for each in jobids.parse_list(word)]
    except ValueError as error:
        fail(NAME, f"Invalid job_step id: {options.plain(str(error))[:80]}")
    for each in found:
        if not each.step:
            fail(NAME, f"Invalid job_step id: {each}.??")
    return tuple(found)


def wanted_of(given: Given) -> Wanted:
    """The jobs that a command line means; raises UsageError."""
    users = given.list("user") + given.list("users")
    known, unknown = selection.users_of([*users, *([selection.me()] if given.has("me") else [])])
    for each in unknown if users else ():
        print(f"{NAME}: error: Invalid user: {options.plain(each)}\n", file=sys.stderr)
    try:
        ids = selection.ids_of(given.get("jobs", ""))
    except ValueError as error:
        fail(NAME, f"Invalid job id: {options.plain(str(error))[:80]}")
    return Wanted(
        ids=ids,
        users=known,
        names=frozenset(given.list("name")),
        states=_states(given),
        partitions=frozenset(given.list("partition")),
        accounts=frozenset(given.list("account")),
        hosts=selection.hosts_of(NAME, given),
        labels=selection.labels_of(given, LABELS),
        why=not given.has("steps"),
        starts=given.has("start"),
        fold=_folds(given, ids),
        since_s=0.0 if given.has("states") and _wants_ends(given) else None,
    )


def _folds(given: Given, ids: tuple[JobId, ...]) -> bool:
    return not given.has("array") and all(each.indices is None for each in ids)


def _states(given: Given) -> frozenset[JobState] | None:
    texts = given.list("states")
    if not texts:
        return None
    if "all" in [text.lower() for text in texts]:
        return frozenset(JobState)
    found = set()
    for text in texts:
        state = states.parse(text)
        if state is None:
            known = ",".join(each.name for each in JobState)
            fail(NAME, f"Invalid job state specified: {options.plain(text)[:80]}",
                 f"Valid job states include: {known}\n")  # fmt: skip
        found.add(state)
    return frozenset(found)


def _wants_ends(given: Given) -> bool:
    wanted = _states(given) or frozenset()
    return bool(states.ours_of(wanted) & states.ENDS)


def _iterate(given: Given) -> float | None:
    text = given.get("iterate")
    if text is None:
        return None
    if not text.isdecimal() or not int(text):
        fail(NAME, f"invalid entry for --iterate={text[:80]}")
    return float(text)


def cells_of(given: Given) -> list[Cell[SlurmJob]]:
    """The columns that a command line wants."""
    wrong: list[str] = []
    if given.has("Format") or (
        "SQUEUE_FORMAT2" in os.environ and not given.has("format", "long", "start")
    ):
        text = given.get("Format", os.environ.get("SQUEUE_FORMAT2", ""))
        cells = columns.long_cells(text, NAMES, wrong.append)
    else:
        usual = LONG if given.has("long") else os.environ.get("SQUEUE_FORMAT", USUAL)
        usual = START if given.has("start") else usual
        cells = columns.short_cells(given.get("format", usual), LETTERS, wrong.append)
    for each in wrong:
        print(f"{NAME}: error: Invalid job format specification: {options.plain(each)}",
              file=sys.stderr)  # fmt: skip
    return cells


def step_cells_of(given: Given) -> list[Cell[AccountLine]]:
    """The columns of `-s` that a command line wants."""
    wrong: list[str] = []
    if given.has("Format"):
        cells = columns.long_cells(given["Format"], steps.NAMES, wrong.append)
    else:
        cells = columns.short_cells(given.get("format", STEPS), steps.LETTERS, wrong.append)
    for each in wrong:
        print(f"{NAME}: error: Invalid job step format specification: {options.plain(each)}",
              file=sys.stderr)  # fmt: skip
    return cells


def show_steps(
    given: Given, wanted: Wanted, cells: Sequence[Cell[AccountLine]], only: Sequence[JobId]
) -> int:
    """Print the list of the steps that run once; the exit code."""
    pool = SlurmPool()
    try:
        ids = wanted.ids or tuple(only)
        jobs = selection.find(pool, replace(wanted, ids=ids, steps=True, fold=False))
        found = steps.running(jobs, only)
    finally:
        pool.close()
    if given.has("long") and not given.has("noheader"):
        print(time.strftime("%a %b %d %H:%M:%S %Y"))
    for line in columns.lines(cells, found, header=not given.has("noheader")):
        print(line)
    return 0


def show(given: Given, wanted: Wanted, cells: Sequence[Cell[SlurmJob]]) -> int:
    """Print the list once; the exit code."""
    pool = SlurmPool()
    try:
        found = list(selection.find(pool, wanted))
    finally:
        pool.close()
    if len(wanted.ids) == 1 and not found and not _is_known(wanted):
        print("slurm_load_jobs error: Invalid job id specified", file=sys.stderr)
        return 1
    if given.has("start"):
        found = [job for job in found if job.waits]
    if wanted.fold:
        found = list(folded(found))
    found = ordered(found, given.get("sort", "P,t,-p"))
    if given.has("json"):
        print(json.dumps({"jobs": [as_json(job) for job in found], "errors": []}, indent=2))
        return 0
    if given.has("long") and not given.has("noheader"):
        print(time.strftime("%a %b %d %H:%M:%S %Y"))
    for line in columns.lines(cells, found, header=not given.has("noheader")):
        print(line)
    return 0


def _is_known(wanted: Wanted) -> bool:
    """Whether the only job that was named exists, and has ended."""
    pool = SlurmPool()
    try:
        query = Wanted(ids=wanted.ids, states=frozenset(JobState), since_s=0.0)
        return any(True for _ in selection.find(pool, query))
    finally:
        pool.close()


def ordered(found: list[SlurmJob], text: str) -> list[SlurmJob]:
    """Sorted by letters with commas between them; `-` turns one round. Raises UsageError."""
    for part in reversed([each.strip() for each in text.split(",") if each.strip()]):
        key = SORTS.get(part.lstrip("+-")[:1])
        if key is not None:
            found = sorted(found, key=key, reverse=part.startswith("-"))
    return found


def as_json(job: SlurmJob) -> dict[str, Any]:
    """A job by the names that `squeue --json` has."""
    row = job.row
    return {
        "account": job.account,
        "array_job_id": job.array or 0,
        "array_task_id": row["array_index"],
        "array_task_string": job.tasks_text if job.indices else "",
        "batch_host": job.nodes,
        "comment": job.labels.comment,
        "command": job.command,
        "cpus": job.cpus,
        "current_working_directory": job.work_dir,
        "dependency": job.dependency,
        "end_time": int(job.end_s or 0),
        "exit_code": row["exit_code"] or 0,
        "job_id": job.number,
        "job_state": job.state.name,
        "name": job.name,
        "nice": job.nice,
        "node_count": 1,
        "nodes": job.nodes,
        "partition": job.partition,
        "standard_error": row["stderr"],
        "standard_output": row["stdout"],
        "start_time": int(job.start_s or 0),
        "state_description": job.why or row["reason"],
        "state_reason": job.reason,
        "submit_time": int(row["submitted_s"]),
        "tasks": job.labels.tasks,
        "time_limit": None if job.limit_s is None else int(job.limit_s // 60),
        "tres_per_node": job.gres,
        "user_id": row["uid"],
        "user_name": row["user"],
    }
