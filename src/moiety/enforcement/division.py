"""Whether a GPU divides its time among programs as the agent counts it.

The agent charges programs that hold a GPU together with equal parts of the time, because a GPU
divides its time equally among processes with work. NVML's process utilisation checks that. A
program whose work had clearly more of the GPU than it was charged with takes turns with the others.

A program that pauses often also shows less work than it is charged with, and the others rightly
fill its pauses. Turns then change nothing. So turns are a trial: they stay only if the others use
the time that they are charged with better than before, and they end now and then, to look again.

Clients of NVIDIA's MPS run at the same time, as their kernels come: they take turns from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from moiety.model.format import format_fraction

WINDOW_S: Final = 10.0
"""The time over which work and charges are compared."""
MARGIN: Final = 0.15
"""A program had more than its part if the difference is larger: NVML samples whole percents of
moments."""
BUSY: Final = 0.5
"""A GPU with less work than this part of the time has no time to divide."""
ACTIVE: Final = 0.05
"""A program that was charged with less than this part of the time is not compared."""
BETTER: Final = 1.25
"""Turns stay if others use their time better by this factor."""
TURNS_S: Final = 60.0
"""How long turns last before another look without them; twice as long after each look."""
TURNS_MAX_S: Final = 3600.0
IN_VAIN_S: Final = 600.0
"""How long no turns are tried after turns that changed nothing."""

Apart = Literal["", "mps", "all"]
"""With which others a program takes turns: with none, with other clients of MPS, with all."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A program on a GPU, as one look saw it."""

    tenant: int
    received_s: float
    """GPU-seconds that it was charged with in its whole life."""
    busy: float | None
    """The part of the time since the last look in which its work ran; None: not known."""
    of_mps: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A program is to take turns from now on, or no more, and why."""

    tenant: int
    apart: Apart
    why: str


@dataclass(slots=True)
class _Trial:
    """Turns of one program."""

    used: dict[int, float]
    """By tenant: the work of the others, over what they were charged with, before the turns."""
    until_s: float
    lasts_s: float
    is_proven: bool = False


@dataclass(slots=True)
class _Gpu:
    """What is known of one GPU."""

    at_s: float = 0.0
    received_s: dict[int, float] = field(default_factory=dict)
    """By tenant, at the last look."""
    span_s: float = 0.0
    """How long work and charges were added up."""
    worked_s: dict[int, float] = field(default_factory=dict)
    charged_s: dict[int, float] = field(default_factory=dict)
    served: set[int] = field(default_factory=set)
    """Clients of MPS that take turns."""
    trials: dict[int, _Trial] = field(default_factory=dict)
    again_s: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By tenant: when turns may be tried again, and how long they last then."""


class Division:
    """The GPUs of one node."""

    def __init__(self) -> None:
        self._gpus: dict[int, _Gpu] = {}

    def look(self, now_s: float, gpu: int, seen: Sequence[Seen], *, fits: bool) -> list[Change]:
        """Take in one look at a GPU, and return what changes.

        `fits`: all programs hold the GPU side by side. Where they do not, nothing is compared.
        """
        known = self._gpus.setdefault(gpu, _Gpu())
        changes = _forget(known, {each.tenant for each in seen})
        changes += _serve(known, {each.tenant for each in seen if each.of_mps})
        _add(known, now_s, seen, fits=fits)
        if known.span_s >= WINDOW_S:
            changes += _judge(known, now_s)
            _begin(known)
        return changes

    def end(self) -> list[int]:
        """Forget everything; returns the programs that took turns."""
        found = [t for gpu in self._gpus.values() for t in (*gpu.served, *gpu.trials)]
        self._gpus.clear()
        return found


def _begin(known: _Gpu) -> None:
    known.span_s = 0.0
    known.worked_s.clear()
    known.charged_s.clear()


def _forget(known: _Gpu, here: set[int]) -> list[Change]:
    """Drop programs that have left; with other programs, the comparison begins anew.

    One that has left may use another GPU, or come back.
    """
    gone = sorted((known.trials.keys() | known.served) - here)
    if known.received_s.keys() != here:
        _begin(known)
        known.received_s.clear()
    for of_tenants in (known.trials, known.again_s):
        for tenant in of_tenants.keys() - here:
            of_tenants.pop(tenant)
    known.served &= here
    return [Change(tenant, "", "it uses the GPU no more") for tenant in gone]


def _serve(known: _Gpu, clients: set[int]) -> list[Change]:
    """Have several clients of MPS take turns; one beside other programs is a process like them."""
    served = clients if len(clients) > 1 else set()
    found = [Change(t, "", "NVIDIA's MPS serves it no more") for t in known.served - served]
    for tenant in sorted(served - known.served):
        known.trials.pop(tenant, None)
        why = "NVIDIA's MPS serves it beside others and does not divide time equally"
        found.append(Change(tenant, "mps", why))
    if found:
        known.served = served
        _begin(known)
    return found


def _add(known: _Gpu, now_s: float, seen: Sequence[Seen], *, fits: bool) -> None:
    """Add what happened since the last look."""
    elapsed_s, known.at_s = now_s - known.at_s, now_s
    if not fits or any(each.busy is None for each in seen):
        _begin(known)
    elif known.received_s:
        known.span_s += elapsed_s
        for each in seen:
            who = each.tenant
            charged_s = each.received_s - known.received_s.get(who, each.received_s)
            known.charged_s[who] = known.charged_s.get(who, 0.0) + charged_s
            worked_s = (each.busy or 0.0) * elapsed_s
            known.worked_s[who] = known.worked_s.get(who, 0.0) + worked_s
    known.received_s = {each.tenant: each.received_s for each in seen}


def _judge(known: _Gpu, now_s: float) -> list[Change]:
    """Compare work with charges."""
    active = [t for t, s in known.charged_s.items() if s >= ACTIVE * known.span_s]
    used = {t: known.worked_s[t] / known.charged_s[t] for t in active}
    found = []
    for tenant, trial in list(known.trials.items()):
        if why := _ends(trial, {t: d for t, d in used.items() if t != tenant}, now_s):
            del known.trials[tenant]
            again_s = now_s if trial.is_proven else now_s + IN_VAIN_S
            known.again_s[tenant] = again_s, min(TURNS_MAX_S, 2 * trial.lasts_s)
            found.append(Change(tenant, "", why))
    if found or known.trials:
        return found
    active = [t for t in active if t not in known.served]
    worked_s = sum(known.worked_s[t] for t in active)
    charged_s = sum(known.charged_s[t] for t in active)
    if len(active) < 2 or worked_s < BUSY * known.span_s:
        return found
    most = max(active, key=lambda t: known.worked_s[t] / worked_s - known.charged_s[t] / charged_s)
    had, due = known.worked_s[most] / worked_s, known.charged_s[most] / charged_s
    from_s, lasts_s = known.again_s.get(most, (now_s, TURNS_S))
    if had - due <= MARGIN or now_s < from_s:
        return found
    others = {t: used[t] for t in active if t != most}
    known.trials[most] = _Trial(others, now_s + lasts_s, lasts_s)
    why = (
        f"its work had {format_fraction(round(had, 2))} of the time that programs had, and was "
        f"charged with {format_fraction(round(due, 2))}"
    )
    return [Change(most, "all", why)]


def _ends(trial: _Trial, used: dict[int, float], now_s: float) -> str:
    """Why turns end now; empty if they go on."""
    if not trial.is_proven:
        both = trial.used.keys() & used.keys()
        if not any(used[t] >= BETTER * max(trial.used[t], ACTIVE) for t in both):
            return "turns gave the others no more: they pause by themselves"
        trial.is_proven = True
    return "the next seconds show whether the GPU divides its time equally" * (
        now_s >= trial.until_s
    )
