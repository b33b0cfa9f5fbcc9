"""The steps against each kind of offence, and the exemptions."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from moiety.enforcement.usual import USUAL
from moiety.model.format import format_duration
from moiety.model.units import parse_duration


class Offence(StrEnum):
    """The ways in which a process can misuse a GPU."""

    UNREGISTERED = "unregistered"
    """The process uses a GPU without moiety, so it gets no turns and its memory cannot leave."""
    LIMIT = "limit"
    """The process shares a GPU and has more memory there than it may."""
    LEASE = "lease"
    """The process shares a GPU and its work runs there while another has the lease."""


class EscalationStep(StrEnum):
    """The steps against an offence, mildest first."""

    WARN = "warn"
    """A line in the agent's log, and on stderr of the program if it shares GPUs."""
    EVENT = "event"
    """An entry in `moiety events`."""
    KILL = "kill"
    """The end of the process."""


ORDER: Final = tuple(EscalationStep)
OFF: Final = "off"
GRACE_S: Final = 60.0
"""Seconds before a kill, where no other time is given."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One step, and how long after the one before it is taken."""

    step: EscalationStep
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ladder:
    """The steps of one kind of offence, mildest first; none: it is not looked for."""

    rungs: tuple[Rung, ...] = (Rung(EscalationStep.WARN), Rung(EscalationStep.EVENT))

    def __str__(self) -> str:
        words = []
        for rung in self.rungs:
            if rung.after_s or rung.step is EscalationStep.KILL:
                words.append(format_duration(rung.after_s).replace(" ", "") or "0s")
            words.append(rung.step.value)
        return ",".join(words) or OFF

    @property
    def kills(self) -> bool:
        """Whether a step of it ends the process."""
        return any(rung.step is EscalationStep.KILL for rung in self.rungs)


def parse_ladder(text: str) -> Ladder:
    """`warn,event`, `warn,event,60s,kill`, `off`: a time stands before the step that it puts off.

    Raises ValueError with a sentence.
    """
    words = [word.strip() for word in text.split(",")]
    if words == [OFF]:
        return Ladder(())
    rungs: list[Rung] = []
    after_s: float | None = None
    for word in words:
        if word[:1].isdigit():
            after_s = (after_s or 0.0) + parse_duration(word)
            continue
        try:
            step = EscalationStep(word)
        except ValueError:
            raise ValueError(
                f"{word!r} is no step; write {', '.join(ORDER)}, with times between them, or {OFF}"
            ) from None
        if rungs and ORDER.index(step) <= ORDER.index(rungs[-1].step):
            raise ValueError(f"{text!r} is out of order; the steps are {', '.join(ORDER)}")
        if after_s is None:
            after_s = GRACE_S if step is EscalationStep.KILL else 0.0
        rungs.append(Rung(step, after_s))
        after_s = None
    if after_s is not None:
        raise ValueError(f"{text!r} ends with a time; name the step that comes after it")
    return Ladder(tuple(rungs))


@dataclass(frozen=True, slots=True)
class Who:
    """A process; pid and start time name it for good."""

    pid: int
    started: int
    uid: int
    user: str
    command: str
    container: str = ""
    runtime: str = ""
    pod: str = ""
    where: str = ""
    """Its container and pod in words."""

    def __str__(self) -> str:
        return f"{self.command or '?'} (pid {self.pid}, {self.user}{', ' * bool(self.where)}" + (
            f"{self.where})"
        )


KINDS: Final = ("user", "command", "container", "pod", "gpu")


@dataclass(frozen=True, slots=True)
class Exemption:
    """Processes or GPUs that are exempt: `pattern` as in a shell."""

    kind: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.pattern}"

    def covers(self, who: Who, gpu: int) -> bool:
        """Whether it exempts this process on this GPU."""
        values: Mapping[str, Iterable[str]] = {
            "user": (who.user, str(who.uid)),
            "command": (who.command,),
            "container": (who.container, who.container[:12]),
            "pod": (who.pod,),
            "gpu": (str(gpu),),
        }
        return any(v and fnmatch.fnmatchcase(v, self.pattern) for v in values[self.kind])


def parse_exemptions(text: str) -> tuple[Exemption, ...]:
    """`user:root,command:Xorg,container:3f4e*,gpu:1`; empty: none. Raises ValueError."""
    found = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        kind, colon, pattern = word.partition(":")
        if not colon or kind not in KINDS or not pattern:
            raise ValueError(
                f"{word!r} is no exemption; write {', '.join(f'{kind}:NAME' for kind in KINDS)}"
            )
        found.append(Exemption(kind, pattern))
    return tuple(found)


DEFAULT: Final = Ladder()


@dataclass(frozen=True, slots=True)
class Policy:
    """All settings of the enforcement. Times in seconds."""

    every_s: float = 5.0
    """Seconds between two looks; 0: never."""
    unregistered: Ladder = DEFAULT
    limit: Ladder = DEFAULT
    lease: Ladder = DEFAULT
    exempt: tuple[Exemption, ...] = field(default_factory=lambda: parse_exemptions(USUAL))
    dry_run: bool = False
    """True: only report the actions."""
    slack_bytes: int | None = None
    """Bytes that NVML may count beyond limit and context; None: two more contexts."""
    idle_s: float = 600.0
    """Seconds after which an idle process is reported; 0: never."""
    slow_s: float = 5.0
    """Seconds of waiting within a minute for which a process is reported; 0: never."""

    def ladder(self, offence: Offence) -> Ladder:
        """The steps for this kind."""
        return {
            Offence.UNREGISTERED: self.unregistered,
            Offence.LIMIT: self.limit,
            Offence.LEASE: self.lease,
        }[offence]

    def lets_off(self, who: Who, gpu: int) -> Exemption | None:
        """The exemption of this process on this GPU; None: it has none."""
        return next((each for each in self.exempt if each.covers(who, gpu)), None)
