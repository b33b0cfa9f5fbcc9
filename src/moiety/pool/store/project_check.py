"""Whether changes of projects make sense, and what they would change."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from moiety.model.errors import BadArgument, InvalidValue
from moiety.policy.model.queues import QueueTree
from moiety.pool.model.project_rows import ProjectRow, ProjectsDiff
from moiety.pool.model.projects import monday_of, pool_words, queues_of
from moiety.pool.model.states import ACTIVE
from moiety.pool.store import rows


def check(connection: sqlite3.Connection, projects: Sequence[ProjectRow]) -> dict[str, ProjectRow]:
    """The projects as they are now; raises BadArgument if those with the others make no sense."""
    known = {each.name: each for each in rows.projects(connection)}
    tree = _tree(known | {each.name: each for each in projects})
    for parent, resource, total, own, when in tree.ever_above_parents():
        if resource == "gpu_milli":
            at = f" on {when}" if when else ""
            raise BadArgument(
                f"the projects below {parent} have a quota of {total / 1000:g} GPUs together{at}, "
                f"and it has {own / 1000:g}",
                "smaller quotas",
            )
    for name, below in tree.children.items():
        has = connection.execute(
            f"SELECT count(*) FROM workload WHERE project = ? AND {rows.LIVE}", (name,)
        ).fetchone()[0]
        if name is not None and below and has:
            raise BadArgument(
                f"project {name} has {has} workloads, so it can have no projects below it",
                "another parent",
            )
    return known


def diff(connection: sqlite3.Connection, projects: Sequence[ProjectRow]) -> ProjectsDiff:
    """What `apply` would change, and who would have too much then. Raises as `check`."""
    known = check(connection, projects)
    lines = [line for each in projects for line in _different(known.get(each.name), each)]
    tree = _tree(known | {each.name: each for each in projects})
    has: Counter[str] = Counter()
    for row in rows.live(connection, ACTIVE):
        if not row.opportunistic:
            for name in tree.path(row.project):
                has[name] += row.gpu_milli * len(row.cards)
    return ProjectsDiff(changes=lines, above=list(_above(tree, has)))


def _tree(projects: Mapping[str, ProjectRow]) -> QueueTree:
    try:
        return QueueTree(queues_of(projects.values()))
    except InvalidValue as error:
        raise BadArgument(pool_words(error.what), "another parent, quota or limit") from None


def _different(before: ProjectRow | None, after: ProjectRow) -> Iterator[str]:
    if before is None:
        yield f"project {after.name}: new, with a quota of {_said(after.quota)}"
        return
    for field in msgspec.structs.fields(ProjectRow):
        was, becomes = getattr(before, field.name), getattr(after, field.name)
        if was != becomes:
            yield f"project {after.name}: {field.name} {_said(was)} becomes {_said(becomes)}"


def _above(tree: QueueTree, has: Mapping[str, int]) -> Iterator[str]:
    now_s = time.time()
    for name, queue in tree.queues.items():
        own = has.get(name, 0)
        quota = queue.quota_at(now_s - monday_of(now_s)).gpu_milli
        limit = queue.limit.gpu_milli
        if limit is not None and own > limit:
            yield f"project {name} has {own / 1000:g} GPUs, and its limit would be {limit / 1000:g}"
        elif quota is not None and own > quota:
            yield (
                f"project {name} has {own / 1000:g} GPUs, and its quota would be {quota / 1000:g}: "
                "others may have the rest back"
            )


def _said(value: object) -> str:
    if value is None:
        return "no bound"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
