"""A recording of an agent's events: fetched page by page, written to a file, read and replayed.

The file is text, one JSON document on each line: a heading, the starting point, then one line for
each event with its instructions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from moiety.agent.control.protocol import EventRecording, RecordingPage
from moiety.agent.core.step_codec import (
    as_document,
    framed,
    from_document,
    unpack,
    unpack_checkpoint,
)
from moiety.arbiter.checkpoint import BadCheckpoint, Checkpoint, portable
from moiety.arbiter.replay import Replayed, Step, replay
from moiety.model.errors import AgentError, RecordingInvalid
from moiety.trace.event_privacy import Disguise
from moiety.version import __version__

FORMAT: Final = 1
HEADING_MAX: Final = 4 << 10
LINE_MAX: Final = 64 << 20
"""The longest line is the starting point: 1 MiB in the agent's memory, some more as text."""
POLL_S: Final = 0.5
"""How often a running recording is fetched: long before the agent's memory is full."""
TRIES: Final = 5
"""How often fetching starts again if the agent has dropped the next records meanwhile."""

Ask = Callable[[EventRecording], RecordingPage]


class Heading(msgspec.Struct, frozen=True):
    """The first line of a file."""

    format: int
    moiety: str
    """The version of moiety that decided."""


class RecordLine(msgspec.Struct, frozen=True):
    """One event in a file."""

    at_s: float
    event: dict[str, Any]
    instructions: list[dict[str, Any]] = []


class RecordStart(msgspec.Struct, frozen=True):
    """The starting point in a file."""

    classes: list[tuple[str, list[str]]]
    tree: Any


@dataclass(slots=True)
class Fetched:
    """The records of one agent, in the order in which it decided."""

    data: bytearray = field(default_factory=bytearray)
    agent_ended: bool = False
    """True if the agent ended during the recording."""
    _pid: int = 0
    _next: EventRecording = field(default_factory=EventRecording)

    def fetch(self, ask: Ask) -> None:
        """Fetch all new records; raises RecordingInvalid if they cannot be fetched."""
        for _ in range(TRIES):
            if self._fetch(ask):
                return
            self.data.clear()
            self._next = EventRecording()
        raise RecordingInvalid("the agent", "it decides faster than its recording can be fetched")

    def _fetch(self, ask: Ask) -> bool:
        more = True
        while more:
            page = ask(self._next)
            if page.is_lost or (self._pid and page.pid != self._pid):
                return False
            if not page.segment:
                raise RecordingInvalid(
                    "the agent", "its state is too large for a recording", "fewer programs"
                )
            self._pid = page.pid
            self.data += page.data
            self._next = EventRecording(page.segment, page.offset)
            more = page.more
        return True

    def follow(
        self,
        ask: Ask,
        for_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Fetch until `for_s` have passed, or until it is interrupted or the agent ends."""
        end_s = clock() + for_s
        self.fetch(ask)
        try:
            while (left_s := end_s - clock()) > 0:
                sleep(min(POLL_S, left_s))
                self.fetch(ask)
        except KeyboardInterrupt:
            pass  # the user wants the events until now
        except AgentError:
            self.agent_ended = True  # the pages that it sent before are still good

    @property
    def checkpoint(self) -> Checkpoint:
        """The starting point."""
        return unpack_checkpoint(next(framed(self.data)))

    def steps(self) -> Iterator[Step]:
        """The steps after the starting point."""
        records = framed(self.data)
        next(records)
        return map(unpack, records)


@dataclass(frozen=True, slots=True)
class Written:
    """The content of a written file, in numbers."""

    events: int
    instructions: int
    seconds: float
    """Time from the first event to the last."""


def write(sink: IO[bytes], fetched: Fetched, hide: Callable[[str], str]) -> Written:
    """Write a recording; names become numbers, and `hide` removes other private data."""
    checkpoint = fetched.checkpoint
    disguise = Disguise(checkpoint, fetched.steps(), hide)
    sink.write(msgspec.json.encode(Heading(FORMAT, __version__)) + b"\n")
    hidden = disguise.checkpoint(checkpoint)
    sink.write(msgspec.json.encode(RecordStart(hidden.classes, portable(hidden.tree))) + b"\n")
    events = instructions = 0
    first_s: float | None = None
    last_s = 0.0
    for step in map(disguise.step, fetched.steps()):
        told = [as_document(each) for each in step.instructions]
        sink.write(
            msgspec.json.encode(RecordLine(step.now_s, as_document(step.event), told)) + b"\n"
        )
        events += 1
        instructions += len(told)
        first_s = step.now_s if first_s is None else first_s
        last_s = step.now_s
    return Written(events, instructions, last_s - (last_s if first_s is None else first_s))


def read(path: Path) -> Iterator[Checkpoint | Step]:
    """The starting point, then each step; raises RecordingInvalid and OSError."""
    with path.open("rb") as file:
        yield from parsed(str(path), _lines(file))


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, cut at the longest line of a recording: a device may never end."""
    if heading := file.readline(HEADING_MAX):
        yield heading
        while line := file.readline(LINE_MAX):
            yield line


def parsed(name: str, lines: Iterable[bytes]) -> Iterator[Checkpoint | Step]:
    """The same from the lines of the file `name`; raises RecordingInvalid."""
    decoders = _decoders()
    number = 0
    for number, line in enumerate(lines, start=1):
        try:
            found = next(decoders)(line)
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, RecursionError) as error:
            problem = f"line {number} is none of a recording: {error}"
            raise RecordingInvalid(name, problem) from None
        if isinstance(found, Heading):
            if found.format != FORMAT:
                raise RecordingInvalid(name, f"it has format {found.format}, and not {FORMAT}")
        else:
            yield found
    if number < 2:
        raise RecordingInvalid(name, "it ends before its starting point")


def _decoders() -> Iterator[Callable[[bytes], Heading | Checkpoint | Step]]:
    start, line = msgspec.json.Decoder(RecordStart), msgspec.json.Decoder(RecordLine)

    def as_checkpoint(text: bytes) -> Checkpoint:
        found = start.decode(text)
        return Checkpoint(found.classes, found.tree)

    def as_step(text: bytes) -> Step:
        found = line.decode(text)
        told = tuple(map(from_document, found.instructions))
        return Step(found.at_s, from_document(found.event), told)

    yield msgspec.json.Decoder(Heading).decode
    yield as_checkpoint
    while True:
        yield as_step


def replay_file(path: Path) -> Replayed:
    """Replay a file, and compare the instructions; raises RecordingInvalid and OSError."""
    found = read(path)
    start = next(found)
    assert isinstance(start, Checkpoint)
    try:
        return replay(start, (step for step in found if isinstance(step, Step)))
    except BadCheckpoint as error:
        raise RecordingInvalid(str(path), str(error)) from None
