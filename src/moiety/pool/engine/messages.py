"""What the server and its engine's process say to each other, and how it is framed."""

from __future__ import annotations

import struct
from typing import IO, Final

import msgspec

LENGTH: Final = struct.Struct("<I")


class CardView(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU, and what is on it that the pool did not start."""

    index: int
    model: str
    memory_mib: int
    """What the arbiter shares out."""
    usable: bool = True
    """False: it is drained or lost, and gets nothing new."""
    drained: bool = False
    lost: bool = False
    outside_milli: int = 0
    """Thousandths of its time that are promised to others, or that they use."""
    outside_mib: int = 0
    """Memory that is promised to others, or that they have."""


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    """What one user may have of each GPU; None: this is not limited."""

    gpu_milli: int | None = None
    memory_mib: int | None = None
    """Of `memory_mib` and `memory_part` the larger counts."""
    memory_part: float | None = None
    workloads: int | None = None
    """How many with GPUs at one time."""
    gpus: list[int] | None = None
    """The only GPUs."""
    priority: int | None = None
    """The highest in the agent's order."""
    where: dict[str, str] = {}
    """By field of the settings: the place of the rule."""
    outside: int = 0
    """How many workloads it has that the pool did not start."""


class MachineView(msgspec.Struct, frozen=True, kw_only=True):
    """The machine as a snapshot needs it."""

    name: str
    cpu_milli: int
    memory_mib: int
    cards: list[CardView]
    arena_mib: int = 0
    """Host memory to which the agent moves what leaves the GPUs."""
    limits: dict[int, UserView] = {}
    """By user: what it may have; others may have everything."""


class CycleRequest(msgspec.Struct, frozen=True, tag="cycle"):
    """Decide; answered by CycleAnswer."""

    machine: MachineView
    now_s: float
    carried: dict[int, int] = {}
    """By workload that can be suspended: the bytes that would leave for the host."""
    host_free_bytes: int = 0
    """What the host has room for; 0: nothing is suspended."""


class ReasonsRequest(msgspec.Struct, frozen=True, tag="reasons"):
    """Why do these wait? Answered by ReasonsAnswer."""

    machine: MachineView
    now_s: float
    numbers: list[int]


class StartsRequest(msgspec.Struct, frozen=True, tag="starts"):
    """When will these begin? Answered by StartsAnswer."""

    machine: MachineView
    now_s: float
    numbers: list[int]


class ExplainRequest(msgspec.Struct, frozen=True, tag="explain"):
    """Why does this one wait, and until when? Answered by ExplainAnswer."""

    machine: MachineView
    now_s: float
    number: int


class ResizeRequest(msgspec.Struct, frozen=True, tag="resize"):
    """May a workload that has GPUs have another part of them? Answered by ResizeAnswer."""

    machine: MachineView
    now_s: float
    number: int
    gpu_milli: int
    gpu_memory_mib: int


class StartOrder(msgspec.Struct, frozen=True):
    """A workload gets GPUs."""

    number: int
    attempt: int
    cards: list[int]
    gpu_milli: int
    """Thousandths of each."""
    is_resume: bool = False
    """Whether it is suspended on these GPUs, and this attempt goes on there."""


class EndOrder(msgspec.Struct, frozen=True):
    """A running workload gives its GPUs to others."""

    number: int
    reason: str
    is_suspension: bool = False
    """Whether it can be suspended for that, and keep what it has done."""


class CycleAnswer(msgspec.Struct, frozen=True, tag="decided"):
    """What is to be done, in this order, and when to decide again if nothing happens."""

    ends: list[EndOrder]
    starts: list[StartOrder]
    look_s: float | None
    memory: bytes = b""
    """What the engine has learned, for the store; empty: not now."""


class WaitReason(msgspec.Struct, frozen=True):
    """Why a workload waits."""

    kind: str
    text: str
    is_final: bool = False
    numbers: dict[str, int] = {}


class ReasonsAnswer(msgspec.Struct, frozen=True, tag="because"):
    """By number: why it waits."""

    reasons: dict[int, WaitReason]


class ExpectedStart(msgspec.Struct, frozen=True):
    """When a workload is expected to begin, in Unix time; None: that cannot be foreseen."""

    expected_s: float | None = None
    low_s: float | None = None
    """It begins between `low_s` and `high_s` four times of five, once it is known how true such
    answers are."""
    high_s: float | None = None


class StartsAnswer(msgspec.Struct, frozen=True, tag="begin"):
    """By number: when it is expected to begin."""

    starts: dict[int, ExpectedStart]


class ExplainAnswer(msgspec.Struct, frozen=True, tag="explained"):
    """The whole explanation of one workload; None: it does not wait for the engine."""

    reason: WaitReason | None
    start: ExpectedStart


class ResizeAnswer(msgspec.Struct, frozen=True, tag="resized"):
    """Why it may not; empty: it may."""

    problem: str


class EngineFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The engine could not decide."""

    problem: str


EngineRequest = CycleRequest | ReasonsRequest | StartsRequest | ExplainRequest | ResizeRequest
EngineAnswer = (
    CycleAnswer | ReasonsAnswer | StartsAnswer | ExplainAnswer | ResizeAnswer | EngineFailed
)


def send(stream: IO[bytes], message: EngineRequest | EngineAnswer) -> None:
    """Write one message."""
    body = msgspec.msgpack.encode(message)
    stream.write(LENGTH.pack(len(body)) + body)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The body of the next message; None: the other end is gone."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None
