"""Takes each offence up its ladder, and returns the actions that are due.

    seen twice -> warn -> event -> (grace) -> kill;  unseen for a minute -> over, and forgotten

An offence that pauses does not begin anew, so a process does not escape by a short pause. And no
process is ended for a past offence: at each step the offence has just been seen again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from moiety.enforcement.policy import EscalationStep, Offence, Policy, Who
from moiety.enforcement.usage import Use, offences
from moiety.model.format import format_duration

SIGHTINGS: Final = 2
"""Looks in a row before anything is done: a process may be about to register, or to end."""
FORGET_S: Final = 60.0
KILL_AGAIN_S: Final = 30.0
ROOT: Final = 0


class ActionKind(StrEnum):
    """The kinds of actions for the agent."""

    WARN = "warn"
    EVENT = "event"
    KILL = "kill"
    SPARE = "spare"
    """Record that the process would be ended, and may not be."""
    OVER = "over"
    """Record that the offence is over."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action; with `dry_run` it is only reported."""

    deed: ActionKind
    offence: Offence
    use: Use
    text: str
    """What is wrong, as a sentence without its subject; with SPARE: why the process lives."""
    threat: str = ""
    """The kill that follows, as a sentence; empty: none follows."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class CaseView:
    """One offence that goes on, for `moiety watch`."""

    offence: Offence
    use: Use
    text: str
    since_s: float
    done: tuple[EscalationStep, ...]
    next: EscalationStep | None
    due_s: float


@dataclass(slots=True)
class _Case:
    offence: Offence
    use: Use
    text: str
    since_s: float
    seen_s: float
    sightings: int = 1
    rung: int = 0
    """Index of the next step."""
    begun: bool = False
    due_s: float = 0.0
    spared: bool = False


Key = tuple[int, int, int, Offence]


class Escalation:
    """The offences of one node. `own_uid` is the agent's user, `own_pids` are never ended."""

    def __init__(self, policy: Policy, own_uid: int, own_pids: frozenset[int]) -> None:
        self.policy = policy
        self._own_uid = own_uid
        self._own_pids = own_pids
        self._cases: dict[Key, _Case] = {}
        self._climbed: list[_Case] = []
        """The offences for which the last look was due to do something."""

    def step(self, now_s: float, gpus: Iterable[int], uses: Iterable[Use]) -> list[Action]:
        """Take in the uses on these GPUs; offences on other GPUs stay as they are."""
        looked = frozenset(gpus)
        seen: set[Key] = set()
        for use in uses:
            if use.gpu not in looked:
                continue
            for offence, text in offences(use):
                if self.policy.ladder(offence).rungs and not self.policy.lets_off(use.who, use.gpu):
                    key = (use.who.pid, use.who.started, use.gpu, offence)
                    seen.add(key)
                    self._see(key, now_s, use, text)
        out: list[Action] = []
        self._climbed.clear()
        for key, case in list(self._cases.items()):
            if key in seen:
                out += self._climb(case, now_s)
            elif key[2] in looked:
                out += self._unseen(key, case, now_s)
        return out

    def acted(self, now_s: float) -> None:
        """The actions of the last step are taken: only now the times until the next ones begin."""
        for case in self._climbed:
            rungs = self.policy.ladder(case.offence).rungs
            if case.rung < len(rungs):
                case.due_s = max(case.due_s, now_s + rungs[case.rung].after_s)
        self._climbed.clear()

    def left(self, pid: int, started: int) -> list[Action]:
        """Forget a process that ended; a later process with its pid starts without offences."""
        out = []
        for key in [key for key in self._cases if key[:2] == (pid, started)]:
            case = self._cases.pop(key)
            if case.rung:
                out.append(self._action(ActionKind.OVER, case, "it ended"))
        return out

    def change(self, policy: Policy) -> None:
        """Use another policy; an offence whose ladder changed begins at its first step.

        After a dry run all offences begin there: a process that was never warned is not ended at
        once.
        """
        for case in self._cases.values():
            changed = policy.ladder(case.offence) != self.policy.ladder(case.offence)
            if changed or policy.dry_run != self.policy.dry_run:
                case.rung, case.begun, case.spared = 0, False, False
        self.policy = policy

    def cases(self) -> list[CaseView]:
        """The present offences, oldest first."""
        views = []
        for case in sorted(self._cases.values(), key=lambda each: each.since_s):
            if case.sightings < SIGHTINGS:
                continue
            rungs = self.policy.ladder(case.offence).rungs
            after = rungs[case.rung] if case.rung < len(rungs) else None
            views.append(
                CaseView(
                    offence=case.offence,
                    use=case.use,
                    text=case.text,
                    since_s=case.since_s,
                    done=tuple(rung.step for rung in rungs[: case.rung]),
                    next=after.step if after else None,
                    due_s=case.due_s if after else 0.0,
                )
            )
        return views

    def _see(self, key: Key, now_s: float, use: Use, text: str) -> None:
        case = self._cases.get(key)
        if case is None:
            self._cases[key] = _Case(key[3], use, text, since_s=now_s, seen_s=now_s)
            return
        case.sightings += 1
        case.use, case.text, case.seen_s = use, text, now_s

    def _climb(self, case: _Case, now_s: float) -> list[Action]:
        if case.sightings < SIGHTINGS:
            return []
        rungs = self.policy.ladder(case.offence).rungs
        if not case.begun:
            case.begun = True
            case.due_s = now_s + rungs[0].after_s
        out: list[Action] = []
        while case.rung < len(rungs) and now_s >= case.due_s:
            step = rungs[case.rung].step
            case.rung += 1
            if case.rung < len(rungs):
                case.due_s = now_s + rungs[case.rung].after_s
            out += self._take(step, case, now_s)
        if out:
            self._climbed.append(case)
        ended = case.rung >= len(rungs) and rungs[-1].step is EscalationStep.KILL
        again = ended and not (out or case.spared or self.policy.dry_run)
        if again and now_s >= case.due_s + KILL_AGAIN_S:
            out += self._take(EscalationStep.KILL, case, now_s)
        return out

    def _take(self, step: EscalationStep, case: _Case, now_s: float) -> list[Action]:
        if step is not EscalationStep.KILL:
            return [self._action(ActionKind(step), case, case.text, self._threat(case, now_s))]
        case.due_s = now_s
        if why := self.spares(case.use.who):
            case.spared = True
            return [self._action(ActionKind.SPARE, case, why)]
        return [self._action(ActionKind.KILL, case, case.text)]

    def spares(self, who: Who) -> str:
        """Why the agent may not end a process; empty: it may."""
        if who.pid in self._own_pids or who.pid <= 1:
            return "it belongs to the agent"
        if who.started <= 0:
            return "it is not known who it is"
        if self._own_uid not in (ROOT, who.uid):
            return f"it is user {who.user}'s; only an agent of root ends other users' processes"
        return ""

    def _threat(self, case: _Case, now_s: float) -> str:
        """A sentence with the time of the process' end; empty if it will not be ended."""
        rungs = self.policy.ladder(case.offence).rungs
        if not rungs or rungs[-1].step is not EscalationStep.KILL or self.spares(case.use.who):
            return ""
        left_s = max(0.0, case.due_s - now_s) if case.rung < len(rungs) else 0.0
        left_s += sum(rung.after_s for rung in rungs[case.rung + 1 :])
        return f"it is ended in {format_duration(left_s)} unless that stops"

    def _unseen(self, key: Key, case: _Case, now_s: float) -> list[Action]:
        if case.sightings < SIGHTINGS:
            del self._cases[key]
            return []
        if now_s - case.seen_s < FORGET_S:
            return []
        del self._cases[key]
        return [self._action(ActionKind.OVER, case, "it does so no more")] if case.rung else []

    def _action(self, deed: ActionKind, case: _Case, text: str, threat: str = "") -> Action:
        return Action(deed, case.offence, case.use, text, threat, self.policy.dry_run)
