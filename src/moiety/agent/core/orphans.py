"""Processes that outlived the last agent and have not come back: what they have stays counted.

One that is stopped cannot say what it has, and would find it given away when it goes on. So the
driver is asked how much of each GPU it takes, and that much is nobody else's until it speaks, has
no memory there any more, or is dead. Nor is what it may take before it notices that its agent is
another: the last one may have allowed it memory without asking, of which the driver knows nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moiety.agent.system.users import name_of
from moiety.arbiter import events as ev
from moiety.arbiter.admission.credit import most_bytes
from moiety.devices.interface import Usage
from moiety.model.units import format_bytes

if TYPE_CHECKING:
    from moiety.agent.core.runtime import Node

LOOK_S: Final = 5.0
"""between two looks at whether they still have memory"""
PATIENCE_S: Final = 1.0
"""so long the driver may take to answer"""

NOBODY: Final = -1
"""the user of a process of which the last agent left nothing but its number"""
Taken = dict[int, dict[int, int]]
"""bytes by GPU by pid"""


@dataclass(slots=True)
class _Ghost:
    """One of them, as the arbiter knows it: a tenant that does nothing and cannot be moved."""

    number: int
    pid: int
    pidfd: int


class Missing:
    """Those of one node."""

    def __init__(self, node: Node, owners: Mapping[int, int]) -> None:
        """`owners` are the users of those who may be missing, by pid."""
        self._node = node
        self._owners = owners
        self._ghosts: dict[int, _Ghost] = {}
        """by pid"""
        self._used: dict[int, int] = {}
        """of each GPU, by whoever, as the driver said last"""

    def count(self, pids: Iterable[int], then: Callable[[], None]) -> None:
        """Ask the driver what these have, count it, and go on; at once if there is nobody."""
        missing = list(pids)
        done = False

        def go_on() -> None:
            nonlocal done
            if not done:
                done = True
                then()

        def found(taken: Taken | None) -> None:
            if not done and taken is not None:
                for pid in missing:
                    if pid in taken and self._node.is_missing(pid):
                        self._count(pid, taken[pid])
            go_on()

        if missing:
            self._ask(sorted(self._node.gpus), {}, found)
            self._node.loop.call_at(self._node.loop.time() + PATIENCE_S, go_on)
        else:
            go_on()

    def number_of(self, pid: int) -> int:
        """The tenant as which a process is counted, 0 for none; it is not watched any more."""
        ghost = self._ghosts.pop(pid, None)
        if ghost is None:
            return 0
        self._unwatch(ghost)
        return ghost.number

    def has(self, pid: int) -> bool:
        """Whether a process is one of them."""
        return pid in self._ghosts

    def stop(self) -> None:
        """Watch nobody any more."""
        for ghost in self._ghosts.values():
            self._unwatch(ghost)
        self._ghosts.clear()

    def _unwatch(self, ghost: _Ghost) -> None:
        self._node.loop.remove_reader(ghost.pidfd)
        os.close(ghost.pidfd)

    def _count(self, pid: int, taken: dict[int, int]) -> None:
        node = self._node
        try:
            pidfd = node.kernel.watch(pid)
        except OSError:
            return  # it is dead
        program = node.kernel.name_of(pid)
        name = f"{program} (pid {pid})"
        owner = self._owners.get(pid, NOBODY)
        ghost = self._ghosts[pid] = _Ghost(node.number(), pid, pidfd)
        node.loop.add_reader(pidfd, self._gone, ghost)
        node.timeline.name(ghost.number, pid, program, "")
        if owner != NOBODY:
            node.timeline.owners[ghost.number] = owner
        told = f"tenant {ghost.number} of {name_of(owner)}" if node.shared else name
        # What it has counts for what its user may have in all.
        node.feed(ev.Hello(ghost.number, pinned=True, name=told, owner=owner))
        total = 0
        for gpu, amount in taken.items():
            residue = min(amount, node.gpus[gpu].residue_bytes)
            data = amount - residue + self._allowed(gpu)
            total += amount
            node.feed(
                ev.Attach(
                    ghost.number, gpu, 0, residue, data, data, data, pinned_bytes=data, exists=True
                )
            )
        node.log.warning("missing", pid=pid, bytes=total)
        text = f"{name} has {format_bytes(total)} of the GPUs and has not found the new agent"
        uid = None if owner == NOBODY else owner
        node.journal.note("Missing", text, pid=pid, program=program, uid=uid)
        node.loop.call_at(node.loop.time() + LOOK_S, self._look, ghost)

    def _allowed(self, gpu: int) -> int:
        """What a process may have been allowed on a GPU, as far as there is room for it."""
        budget = self._node.gpus[gpu].budget
        free = budget.total_bytes - self._used.get(gpu, 0)
        return max(0, min(most_bytes(self._node.settings, budget.capacity_bytes), free))

    def _look(self, ghost: _Ghost) -> None:
        """Whether it has gone without a word: it has ended its work, or became another program."""
        if self._ghosts.get(ghost.pid) is ghost:
            self._ask(sorted(self._node.gpus), {}, lambda taken: self._looked(ghost, taken))

    def _looked(self, ghost: _Ghost, taken: Taken | None) -> None:
        if self._ghosts.get(ghost.pid) is not ghost:
            return
        if taken is None or ghost.pid in taken or self._node.kernel.is_stopped(ghost.pid):
            self._node.loop.call_at(self._node.loop.time() + LOOK_S, self._look, ghost)
        else:
            self._gone(ghost)

    def _gone(self, ghost: _Ghost) -> None:
        if self._ghosts.pop(ghost.pid, None) is ghost:
            self._unwatch(ghost)
            self._node.feed(ev.Left(ghost.number))
            self._node.timeline.forget(ghost.number)

    def _ask(
        self,
        gpus: list[int],
        taken: Taken,
        then: Callable[[Taken | None], None],
    ) -> None:
        """What all processes have, asked GPU by GPU; None where one does not answer."""
        if not gpus:
            then(taken)
            return

        def looked(usage: Usage | None) -> None:
            if usage is None:
                then(None)
                return
            self._used[gpus[0]] = usage.used_bytes
            for pid, amount in usage.processes.items():
                if amount:
                    taken.setdefault(pid, {})[gpus[0]] = amount
            self._ask(gpus[1:], taken, then)

        self._node.look_at(gpus[0], looked)
