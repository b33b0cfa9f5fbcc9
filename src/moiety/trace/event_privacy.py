"""Takes names out of a recording so that it still replays to the same instructions.

Names of programs, gangs, workloads and their owners become numbers everywhere: in events, in
sentences of refusals and in the starting point. In other texts, the caller's `hide` removes private
parts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.checkpoint import Checkpoint, names, with_texts
from moiety.arbiter.replay import Step

PID: Final = re.compile(r" \(pid \d+\)\Z")
TEXTS: Final[dict[type, tuple[str, ...]]] = {
    ev.Hello: ("name", "owner", "workload"),
    ev.GangJoined: ("gang",),
    ev.PinRequest: ("call",),
    ev.Pinned: ("reason",),
    ev.ArenaSet: ("reason",),
    do.Refused: ("text",),
    do.HostShort: ("text",),
}
"""Fields with texts of users, by class; a test finds missing fields."""
OWN_WORDS: Final = frozenset({(do.Refused, "code"), (do.Overdue, "state"), (ev.Attach, "too_many")})
"""Fields with texts of moiety only."""


class Disguise:
    """Replaces the names of one recording by numbers."""

    def __init__(
        self, start: Checkpoint, steps: Iterable[Step], hide: Callable[[str], str]
    ) -> None:
        """Number every name of the recording, in the order of appearance."""
        self._hide = hide
        self._numbers: dict[str, str] = {}
        self._counts = dict.fromkeys(("program", "gang", "owner", "workload", "group"), 0)
        for kind, name in names(start):
            self._number(name, "gang" if kind == "TenantGang" else "program")
        for field in ("owner", "workload"):
            for _, name in names(start, field):
                self._number(name, field)
        for step in steps:
            if isinstance(step.event, ev.Hello):
                self._number(step.event.name, "program")
                self._number(step.event.owner, "owner")
                self._number(step.event.workload, "workload")
            elif isinstance(step.event, ev.GuaranteesSet):
                for owner in step.event.parts:
                    self._number(owner, "owner")
                for name, (_, owners) in step.event.groups.items():
                    self._number(name, "group")
                    for owner in owners:
                        self._number(owner, "owner")
            elif isinstance(step.event, ev.GangJoined):
                self._number(step.event.gang, "gang")
        known = sorted(self._numbers, key=len, reverse=True)
        self._names = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w)")

    def _number(self, name: str, kind: str) -> None:
        if name and name not in self._numbers:
            self._counts[kind] += 1
            pid = PID.search(name)
            self._numbers[name] = f"{kind} {self._counts[kind]}{pid.group() if pid else ''}"

    def text(self, text: str) -> str:
        """A name's number, or a sentence with numbers for the names in it."""
        if (number := self._numbers.get(text)) is not None:
            return number
        if self._numbers:
            text = self._names.sub(lambda found: self._numbers[found.group()], text)
        return self._hide(text)

    def checkpoint(self, start: Checkpoint) -> Checkpoint:
        """The starting point without names."""
        return dataclasses.replace(start, tree=with_texts(start.tree, self.text))

    def step(self, step: Step) -> Step:
        """A step without names."""
        told = tuple(map(self._plain, step.instructions))
        return Step(step.now_s, self._plain(step.event), told)

    def _plain(self, each: Any) -> Any:
        if isinstance(each, ev.UserLimitsSet):
            limits = {uid: (most, self.text(rule)) for uid, (most, rule) in each.limits.items()}
            parts = {uid: (part, self.text(rule)) for uid, (part, rule) in each.parts.items()}
            return ev.UserLimitsSet(limits, parts)
        if isinstance(each, ev.GuaranteesSet):
            groups = {
                self.text(name): (part, tuple(map(self.text, owners)))
                for name, (part, owners) in each.groups.items()
            }
            return ev.GuaranteesSet({self.text(o): p for o, p in each.parts.items()}, groups)
        fields = TEXTS.get(type(each))
        if fields is None:
            return each
        return replace(each, **{name: self.text(getattr(each, name)) for name in fields})
