"""The cgroups in which a machine's pool puts its workloads: what there is here, and what it can.

With version 2 the workloads' folder lies below the cgroup of the starter, which systemd has given
to it (`Delegate=yes`), or at the top where there is no systemd. With version 1 it lies below the
starter's own cgroup of each controller, so that limits of a container hold.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = "moiety-pool"
"""What the names of the folders of all pools begin with."""
LEAF: Final = "starter"
"""Where the starter goes itself: in version 2, a cgroup with controllers has no processes."""
CONTROLLERS: Final = ("memory", "pids")
FILES: Final = {
    "memory": ("memory.max", "memory.limit_in_bytes"),
    "pids": ("pids.max", "pids.max"),
}
"""By controller: the file of its limit, in version 2 and in version 1."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted tree of cgroups, and this process' place in it."""

    own: Path
    controllers: frozenset[str]
    """Of version 1; of version 2 empty."""
    is_version_2: bool


def hierarchies(mountinfo: str, membership: str) -> Iterator[Hierarchy]:
    """What /proc/self/mountinfo and /proc/self/cgroup say, version 2 first."""
    own: dict[str, str] = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        for each in controllers.split(","):
            own[each] = path
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if kind[0] not in ("cgroup", "cgroup2"):
            continue
        has = frozenset(kind[2].split(",")) & frozenset(CONTROLLERS)
        key = "" if kind[0] == "cgroup2" else next(iter(has), None)
        if key is None or key not in own:
            continue
        root, mount = fields[3], Path(fields[4])
        inside = own[key].removeprefix(root) if root != "/" else own[key]
        is_new = kind[0] == "cgroup2"
        found.append(
            Hierarchy(mount / inside.lstrip("/"), has if not is_new else frozenset(), is_new)
        )
    yield from sorted(found, key=lambda each: not each.is_version_2)


def folder_of(workloads: str) -> str:
    """The name of the folder of one pool, by the path of its workloads' files.

    Workloads of all pools have the same numbers, and two pools can run below one cgroup.
    """
    return f"{FOLDER}-{hashlib.sha256(os.fsencode(workloads)).hexdigest()[:12]}"


def make(trees: Iterator[Hierarchy], name: str) -> list[Path]:
    """Make the folders in which workloads get cgroups; those that cannot be made are left out.

    The calling process goes into a leaf of its own where that is needed. `name` is the pool's own
    (`folder_of`).
    """
    made = []
    for tree in trees:
        folder = tree.own / name
        with contextlib.suppress(OSError):
            if tree.own.name == LEAF:  # a starter of ours began this one
                folder = tree.own.parent / name
            folder.mkdir(exist_ok=True)
            if tree.is_version_2:
                _enable(folder)
            made.append(folder)
    return made


def _enable(folder: Path) -> None:
    """Give a folder of version 2 its controllers, as far as they are there."""
    wanted = [each for each in CONTROLLERS if each in _words(folder.parent / "cgroup.controllers")]
    missing = [each for each in wanted if each not in _words(folder / "cgroup.controllers")]
    if missing:
        with contextlib.suppress(OSError):
            leaf = folder.parent / LEAF
            if (folder.parent / "cgroup.type").exists():  # not at the top of the machine
                leaf.mkdir(exist_ok=True)
                (leaf / "cgroup.procs").write_text(str(os.getpid()))
        for each in missing:
            with contextlib.suppress(OSError):
                (folder.parent / "cgroup.subtree_control").write_text(f"+{each}")
    for has in _words(folder / "cgroup.controllers"):
        if has in CONTROLLERS:
            with contextlib.suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{has}")


def described(folders: list[Path]) -> str:
    """What workloads in these folders have, in one line."""
    has_kill = any((folder / "cgroup.kill").exists() for folder in folders)
    limits = []
    for controller, names in FILES.items():
        if any(_has_limit(folder, controller, names) for folder in folders):
            limits.append("processes" if controller == "pids" else controller)
    how = "cgroup.kill and cgroup.freeze" if has_kill else "process groups"
    limited = f"limits of {' and '.join(limits)}" if limits else "no limits of memory or processes"
    return f"{how}, {limited}"


def _has_limit(folder: Path, controller: str, names: tuple[str, str]) -> bool:
    is_new = controller in _words(folder / "cgroup.subtree_control")
    return is_new or (not (folder / "cgroup.controllers").exists() and (folder / names[1]).exists())


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
