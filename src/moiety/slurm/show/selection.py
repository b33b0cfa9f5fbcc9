"""Asks the pool for jobs: those of a command line, page after page."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moiety.slurm.labels import pool_name
from moiety.slurm.pool import SlurmPool
from moiety.slurm.show import hostlist, jobids, states
from moiety.slurm.show.jobids import JobId
from moiety.slurm.show.jobs import SlurmJob, of_page
from moiety.slurm.show.options import Given, fail, plain
from moiety.slurm.show.states import JobState

PAGE: Final = 1000
IDS_MAX: Final = 200
"""Numbers of jobs that one request names."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which jobs a command line means; what is empty rules nothing out."""

    ids: tuple[JobId, ...] = ()
    users: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    states: frozenset[JobState] | None = None
    """None: what has not ended."""
    partitions: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    """Only jobs that run, or ran, on one of these."""
    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """What jobs said when they were submitted: by the name of a label, the values that will do."""
    since_s: float | None = None
    """With jobs that have ended since then."""
    until_s: float | None = None
    why: bool = False
    starts: bool = False
    steps: bool = False
    """Whether the steps of `srun` are asked for."""
    fold: bool = False
    """Whether the waiting tasks of an array may come as one."""


def find(pool: SlurmPool, wanted: Wanted) -> Iterator[SlurmJob]:
    """The jobs, by their numbers; raises what the pool refuses."""
    host = str(pool.get("/status")["host"]) or os.uname().nodename.partition(".")[0]
    for query in _queries(wanted):
        for page in _pages(pool, query):
            for job in of_page(page, host):
                if matches(job, wanted):
                    yield job


def _queries(wanted: Wanted) -> Iterator[dict[str, str | int]]:
    query: dict[str, str | int] = {"limit": PAGE}
    if wanted.why:
        query["why"] = 1
    if wanted.starts:
        query["start"] = 1
    if wanted.steps:
        query["steps"] = 1
    if wanted.fold:
        query["fold"] = 1
    if wanted.since_s is not None:
        query["since"] = int(wanted.since_s)
    if len(wanted.users) == 1:
        query["user"] = next(iter(wanted.users))
    if len(wanted.names) == 1:
        query["name"] = pool_name(next(iter(wanted.names)))
    if wanted.states is not None:
        if not (names := states.ours_of(wanted.states)):
            return
        query["state"] = ",".join(sorted(names))
    if not wanted.ids:
        yield query
    for at in range(0, len(wanted.ids), IDS_MAX):
        numbers = {each.number for each in wanted.ids[at : at + IDS_MAX]}
        yield {**query, "ids": ",".join(map(str, sorted(numbers)))}


def _pages(pool: SlurmPool, query: dict[str, str | int]) -> Iterator[Mapping[str, Any]]:
    while True:
        page = pool.get("/records", **query)
        yield page
        if page["after"] is None:
            return
        query = {**query, "after": page["after"]}


def matches(job: SlurmJob, wanted: Wanted) -> bool:
    """Whether a job is meant; the pool has sorted out most of the others."""
    if wanted.ids and not any(names(each, job) for each in wanted.ids):
        return False
    if wanted.users and job.row["user"] not in wanted.users:
        return False
    if wanted.names and wanted.names.isdisjoint((job.name, job.row["name"])):
        return False
    if wanted.states is not None and job.state not in wanted.states:
        return False
    if wanted.partitions and job.partition not in wanted.partitions:
        return False
    if wanted.hosts and job.nodes not in wanted.hosts:
        return False
    for label, values in wanted.labels.items():
        said = str(getattr(job.labels, label)).split(",")
        if values.isdisjoint({*said, *(part.partition(":")[0] for part in said)}):  # matlab:2
            return False
    return not wanted.accounts or bool({job.account, job.row["project"]} & wanted.accounts)


def names(wanted: JobId, job: SlurmJob) -> bool:
    """Whether this number means a job: also that of its array."""
    if wanted.indices is None:
        return wanted.number in (job.number, job.array)
    if job.array != wanted.number:
        return False
    own = job.indices if job.indices is not None else (job.row["array_index"],)
    return any(index in wanted.indices for index in own)


def labels_of(given: Given, of: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """The values of options that mean labels; `of` has the label of each option."""
    return {
        label: frozenset(given.list(option)) for option, label in of.items() if given.has(option)
    }


def hosts_of(program: str, given: Given) -> frozenset[str]:
    """The hosts of `--nodelist`; raises UsageError."""
    try:
        return frozenset(hostlist.expand(given.get("nodelist", "")))
    except ValueError:
        fail(program, f"Invalid node list: {plain(given['nodelist'])[:80]}")


def users_of(texts: Iterable[str]) -> tuple[frozenset[str], list[str]]:
    """Names of users from names and numbers, and those that the system does not know."""
    found, unknown = set(), []
    for text in texts:
        try:
            entry = pwd.getpwuid(int(text)) if text.isdecimal() else pwd.getpwnam(text)
            found.add(entry.pw_name)
        except (KeyError, OverflowError):
            found.add(text)
            unknown.append(text)
    return frozenset(found), unknown


def me() -> str:
    """The name of this user, as the pool has it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def ids_of(text: str) -> tuple[JobId, ...]:
    """Numbers of jobs; raises ValueError with the first that is none."""
    return tuple(jobids.parse_list(text))
