"""`sacct`: what has run and runs, from the pool's store."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import Final

from moiety.slurm import times
from moiety.slurm.pool import SlurmPool
from moiety.slurm.show import columns, options, selection, states
from moiety.slurm.show.account_columns import BRIEF, LONG, NAMES, USUAL, as_json
from moiety.slurm.show.account_lines import AccountLine, steps_of
from moiety.slurm.show.columns import Cell
from moiety.slurm.show.jobs import SlurmJob, folded
from moiety.slurm.show.options import Given, UsageError, fail
from moiety.slurm.show.selection import Wanted
from moiety.slurm.show.states import JobState

NAME: Final = "sacct"
OPTIONS: Final = {
    "accounts=": "A", "account=": "", "allocations": "X", "allusers": "a", "array": "",
    "brief": "b", "clusters=": "M", "cluster=": "", "completion": "c", "constraints=": "C",
    "delimiter=": "", "duplicates": "D", "endtime=": "E", "federation": "", "flags=": "F",
    "format=": "o", "gid=": "g", "group=": "", "help": "h", "helpformat": "e", "jobs=": "j",
    "json": "", "local": "", "long": "l", "me": "", "name=": "", "ncpus=": "I", "noconvert": "",
    "nnodes=": "i", "nodelist=": "N", "noheader": "n", "parsable": "p", "parsable2": "P",
    "partition=": "r", "qos=": "q", "reason=": "R", "starttime=": "S", "state=": "s",
    "timelimit-max=": "K", "timelimit-min=": "k", "truncate": "T", "uid=": "u", "units=": "",
    "unused": "", "usage": "", "use-local-uid": "", "user=": "", "verbose": "v", "version": "V",
    "wckeys=": "W", "whole-hetjob=": "", "yaml": "", "duplicates=": "",
}  # fmt: skip
LABELS: Final = {"qos": "qos", "wckeys": "wckey"}
ABSENT: Final = (
    "completion", "constraints", "flags", "gid", "group", "ncpus", "nnodes", "reason",
    "timelimit-max", "timelimit-min", "truncate", "units", "yaml",
)  # fmt: skip
HELP: Final = """\
Usage: sacct [-a] [-b] [-E endtime] [-j jobs] [-n] [-o format] [-p | -P] [-r partitions]
             [-S starttime] [-s states] [-u users] [-X] [--name names] [--json]
Jobs of the moiety pool of this machine. docs/reference-slurm-commands.md says more."""


def main(arguments: list[str]) -> int:
    """Run `sacct`; the exit code."""
    try:
        given, words = options.read(NAME, arguments, OPTIONS, ABSENT)
        if given.has("help", "usage"):
            print(HELP)
            return 0
        if given.has("helpformat"):
            print(helpformat())
            return 0
        if words:
            fail(NAME, f"Unknown arguments: {options.plain(words[0])[:80]}")
        now_s = time.time()
        wanted = wanted_of(given, now_s)
        until_s = _moment(given, "endtime", now_s)
        cells = cells_of(given)
    except UsageError as error:
        return options.usage(error)
    pool = SlurmPool()
    try:
        found = [job for job in selection.find(pool, wanted) if _is_in(job, wanted, until_s)]
    finally:
        pool.close()
    jobs = found if given.has("array") else list(folded(found))
    if given.has("json"):
        print(json.dumps({"jobs": [as_json(job) for job in jobs], "errors": []}, indent=2))
        return 0
    for line in table(given, cells, jobs, wanted):
        print(line)
    return 0


def wanted_of(given: Given, now_s: float) -> Wanted:
    """The jobs that a command line means; raises UsageError."""
    texts = given.list("uid") + given.list("user")
    known, unknown = selection.users_of(texts)
    if unknown:
        fail(NAME, f"Invalid user id: {options.plain(unknown[0])[:80]}")
    try:
        ids = selection.ids_of(given.get("jobs", ""))
    except ValueError as error:
        fail(NAME, f"Invalid job id: {options.plain(str(error))[:80]}")
    everybody = given.has("allusers") or ids or (os.getuid() == 0 and not texts)
    if given.has("me") or (not texts and not everybody):
        known = known | {selection.me()}
    wanted_states = _states(given)
    since_s = _moment(given, "starttime", now_s)
    if since_s is None:
        since_s = 0.0 if ids else times.moment("00:00", now_s)
    return Wanted(
        ids=ids,
        users=known,
        names=frozenset(given.list("name")),
        states=wanted_states or frozenset(JobState),
        partitions=frozenset(given.list("partition")),
        accounts=frozenset(given.list("accounts") + given.list("account")),
        hosts=selection.hosts_of(NAME, given),
        labels=selection.labels_of(given, LABELS),
        since_s=since_s,
        steps=not given.has("allocations"),
    )


def _states(given: Given) -> frozenset[JobState]:
    found = set()
    for text in given.list("state"):
        state = states.parse(text)
        if state is None:
            fail(NAME, f"Invalid job state: {options.plain(text)[:80]}")
        found |= {state} | (states.BEGUN if state is JobState.RUNNING else frozenset())
    return frozenset(found)


def _moment(given: Given, name: str, now_s: float) -> float | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return times.moment(text, now_s)
    except ValueError:
        fail(NAME, f"Invalid time specification (pos=0): {options.plain(text)[:80]}")


def _is_in(job: SlurmJob, wanted: Wanted, until_s: float | None) -> bool:
    """Whether a job was there before the end of the time that is asked for."""
    if wanted.since_s and job.is_over and job.row["ended_s"] < wanted.since_s:
        return False
    return until_s is None or job.row["submitted_s"] <= until_s


def cells_of(given: Given) -> list[Cell[AccountLine]]:
    """The columns that a command line wants; raises UsageError."""
    delimiter = given.get("delimiter", "|") if given.has("parsable", "parsable2") else None
    usual = BRIEF if given.has("brief") else LONG if given.has("long") else ""
    text = given.get("format") or usual or os.environ.get("SACCT_FORMAT", USUAL)
    text = text.lower().replace("%all", "all")
    if text == "all":
        text = ",".join(NAMES)
    wrong: list[str] = []
    cells = columns.percent_cells(text, NAMES, delimiter, wrong.append)
    if wrong:
        fail(NAME, f'Invalid field requested: "{options.plain(wrong[0])[:80]}"')
    return cells


def table(
    given: Given, cells: Sequence[Cell[AccountLine]], jobs: Sequence[SlurmJob], wanted: Wanted
) -> Iterator[str]:
    """The lines that are printed."""
    found: Iterator[str] = columns.lines(
        cells, _lines(given, jobs, wanted), header=not given.has("noheader")
    )
    is_header = not given.has("noheader")
    for line in found:
        yield line.removesuffix(given.get("delimiter", "|")) if given.has("parsable2") else line
        if is_header and not given.has("parsable", "parsable2"):
            yield "".join("-" * (cell.width or 0) + " " for cell in cells)
        is_header = False


def _lines(given: Given, jobs: Sequence[SlurmJob], wanted: Wanted) -> Iterator[AccountLine]:
    """Jobs and their steps; a step that is named alone comes without its job."""
    named = {(each.number, each.step) for each in wanted.ids if each.step}
    whole = {each.number for each in wanted.ids if not each.step}
    for job in jobs:
        own = {job.number, job.array}
        is_whole = not named or bool(whole & own)
        if is_whole or given.has("allocations"):
            yield AccountLine(job)
        if given.has("allocations"):
            continue
        for line in steps_of(job):
            if is_whole or any((number, line.step) in named for number in own):
                yield line


def helpformat() -> str:
    """The names of all columns."""
    names = [column.title for column in NAMES.values()]
    rows = [names[at : at + 4] for at in range(0, len(names), 4)]
    return "\n".join("".join(name.ljust(20) for name in row).rstrip() for row in rows)
