"""Liars: processes that speak the protocol with any values in any order, beside honest programs.

    told = lie_for(dice, messages=1000)    # raises Cost where a lie cost somebody else something

The agent is the real one, the liars are of two users with limits, and the honest programs of a
third. What must hold is looked at after each lie: the accounts, limits, promises and events of the
honest programs, their wait, and the limits of the liars.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from moiety.agent.core.journal import KEPT, SOURCES_MAX
from moiety.arbiter import events as ev
from moiety.arbiter.settings import OverduePolicy, Settings
from moiety.model.errors import ProtocolError
from moiety.model.share import NOTHING_ASKED, Share
from moiety.testing.waiting import until
from moiety.wire.codec import decode
from moiety.wire.layout import GPU_LIST_BYTES, NO_GPU, ShareFlag, Type
from moiety.wire.message import Message
from moiety.wire.messages import (
    MESSAGES,
    AttachMessage,
    HelloMessage,
    LeaseNoteMessage,
    RefusedMessage,
)
from tests.support.virtual_agent import CAPACITY, USER, World
from tests.support.virtual_process import VirtualProcess

LIARS: Final = (2000, 2001)
"""Users."""
LIAR_BYTES: Final = 2
"""That each of them may have on the GPU."""
AT_ONE_TIME: Final = 2
"""Liars, of all users together: with the honest ones, no more contexts than fit."""
DEADLINE_S: Final = 0.5
TURN_S: Final = 0.05
SLACK_S: Final = 1.0
KEPT_BYTES: Final = 2
HONEST: Final = {Share(gpu=0.3, memory_bytes=KEPT_BYTES): [2, 2], NOTHING_ASKED: [2, 1]}
"""The blocks that each begins with; it may have one of 1 B more. What the liars may have, what is
kept for the first and what the second may have fit together, so that refusing it is a cost."""
LIAR_SHARES: Final = (NOTHING_ASKED, NOTHING_ASKED, Share(memory_limit_bytes=1), Share(gpu=0.1))
SMALL: Final = (0, 1, 1, 1, 2, 2, 3, 5)
ODD: Final = (11, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 50, (1 << 63) - 1, (1 << 64) - 1)
LIFE: Final = (Type.ATTACH, Type.ALLOC_REQUEST, Type.LEASE_REQUEST, Type.DRAINED, Type.RESTORED)
"""What a program says most; a liar that says nothing of it comes nowhere."""


class Cost(AssertionError):
    """A lie cost an honest program something, or gave a liar more than it may have."""


@dataclass
class Liar:
    """One process that lies."""

    pid: int
    uid: int
    share: Share
    epoch: int = 0
    """Of the last lease that it heard of."""
    serial: int = 0


@dataclass
class Lies:
    """Honest programs and liars on one machine; `told` counts the lies."""

    world: World
    dice: Random
    told: int = 0
    by_type: dict[int, int] = field(default_factory=dict)
    honest: list[VirtualProcess] = field(default_factory=list)
    liars: dict[int, Liar] = field(default_factory=dict)
    wants_since_s: dict[int, float] = field(default_factory=dict)
    longest_s: float = 0.0
    """How long an honest program waited at most."""
    at_one_time: int = AT_ONE_TIME
    """How many liars there are at most."""

    def begin(self) -> None:
        """Start the honest programs, and limit the users that lie."""
        limits = dict.fromkeys(LIARS, (LIAR_BYTES, "the user may have"))
        agent = self.world.start_agent()
        agent.runtime.feed(ev.UserLimitsSet(limits))
        for share, blocks in HONEST.items():
            process = self.world.begin(share)
            process.attach(0, 1, CAPACITY)
            self.world.settle()
            process.allocate(0, blocks)
            process.touch()
            self.world.until_rest(0.2)
            self.honest.append(process)
        self.check()

    # What happens

    def happen(self) -> None:
        """One lie, or something that an honest program does, or time that passes."""
        what = self.dice.random()
        if what < 0.85:
            self.lie()
        elif what < 0.93:
            self.work(self.dice.choice(self.honest))
        else:
            self.world.until_rest(self.dice.choice([0.01, 0.1]), 0.01)
        self.bury()
        self.check()

    def work(self, process: VirtualProcess) -> None:
        """An honest program uses the GPU, allocates a little more, or frees it."""
        if len(process.blocks) > 1 and process.blocks[-1].admitted and self.dice.random() < 0.5:
            process.free(process.blocks[-1])
        elif len(process.blocks) == 1 and self.dice.random() < 0.5:
            process.allocate(0, [1])
        process.touch()
        self.world.settle()

    def lie(self) -> None:
        """Some process says something that need not be true."""
        dice, world = self.dice, self.world
        if not self.liars or (len(self.liars) < self.at_one_time and dice.random() < 0.1):
            self.meet()
        liar = dice.choice(list(self.liars.values()))
        chance = dice.random()
        if chance < 0.01:
            self.lose(liar)
        elif chance < 0.05:
            self.connect(liar)
        elif chance < 0.07:
            self.send(liar, dice.randbytes(dice.randrange(0, 300)))
        else:
            self.send(liar, self.message(liar).encode())
        world.settle()

    def meet(self) -> None:
        """One more process that lies."""
        pid = self.world.begin_liar()
        liar = Liar(pid, self.dice.choice(LIARS), self.dice.choice(LIAR_SHARES))
        self.liars[pid] = liar
        self.connect(liar)

    def connect(self, liar: Liar) -> None:
        """It connects, anew if it has a connection, and greets most of the time."""
        if before := self.world.liars.pop(liar.pid, None):
            before.close()
            if self.dice.random() < 0.5:
                self.world.settle()
        sock = self.world.connect(liar.pid, liar.share, liar.uid)
        assert sock is not None
        self.world.liars[liar.pid] = sock
        if self.dice.random() < 0.95:
            flags = self.dice.choice([0, 0, 1, 1, 3, 5, 7, 8, 15, 1 << 15])
            epoch = self.dice.choice([0, liar.epoch, self.number(0xFFFFFFFF)])
            hello = HelloMessage(flags=flags, pid=self.number(0xFFFFFFFF), epoch=epoch)
            self.send(liar, hello.encode())
            if self.dice.random() < 0.8:
                self.world.settle()
                uuid = self.world.uuids[0]
                self.send(liar, AttachMessage(serial=1, uuid=uuid).encode())

    def lose(self, liar: Liar) -> None:
        """It dies."""
        del self.liars[liar.pid]
        self.world.end_liar(liar.pid)

    def end(self) -> None:
        """All liars die."""
        for liar in list(self.liars.values()):
            self.lose(liar)

    def bury(self) -> None:
        """Forget the liars that the agent ended."""
        for pid in [pid for pid in self.liars if not self.world.is_alive(pid)]:
            del self.liars[pid]

    # What liars say

    def number(self, most: int) -> int:
        """A small number as a program would say, or an odd one."""
        odd = [value for value in ODD if value <= most]
        return self.dice.choice(SMALL if self.dice.random() < 0.8 else odd)

    def message(self, liar: Liar) -> Message:
        """Any message, with any values."""
        dice = self.dice
        if dice.random() < 0.6:
            kind = dice.choice(LIFE)
            cls = next(each for each in MESSAGES if kind in each.TYPES)
        else:
            cls = dice.choice(MESSAGES)
            kind = Type(dice.choice(cls.TYPES))
        liar.serial += 1
        serial = liar.serial if dice.random() < 0.8 else self.number(0xFFFFFFFF)
        fields: dict[str, Any] = {"type": kind, "serial": serial}
        for name in cls.__struct_fields__:
            if name not in fields:
                fields[name] = self.value(liar, name)
        return cls(**fields)

    def value(self, liar: Liar, name: str) -> object:
        """A value of one field."""
        dice = self.dice
        if name == "uuid":
            return dice.choice([*self.world.uuids, *self.world.uuids, bytes(16)])
        if name == "uuids":
            named = [dice.choice([*self.world.uuids, bytes(16)]) for _ in range(3)]
            return b"".join(named).ljust(GPU_LIST_BYTES, b"\0")
        if name == "token":
            return bytes([dice.randrange(3)]) * 32
        if name in ("program", "reason", "name", "text", "call"):
            return dice.choice(["", "liar", "cuIpcGetMemHandle", "\x1b[31m\n\u202e"])
        if name == "gpu":
            return dice.choice([0, 0, 0, 0, 0, 1, NO_GPU])
        if name == "epoch":
            return dice.choice([liar.epoch, liar.epoch, self.number(0xFFFFFFFF)])
        if name == "flags":
            return dice.choice([0, 0, 0, 1, 2, 3, 4, 5, int(ShareFlag.HELD), 0xFFFF])
        if name == "magic":
            return HelloMessage().magic
        if name == "version":
            return HelloMessage().version if dice.random() < 0.9 else 7
        long = name.endswith(("bytes", "us")) or name in ("segment", "calls", "offset")
        return self.number((1 << 64) - 1 if long else 0xFFFFFFFF)

    def send(self, liar: Liar, packet: bytes) -> None:
        """It says this, and reads what it is told."""
        sock = self.world.liars[liar.pid]
        self.told += 1
        with contextlib.suppress(OSError):  # full, empty, or the agent has hung up
            sock.send(packet)
            self.world.settle()
            while heard := sock.recv(4096):
                with contextlib.suppress(ProtocolError):
                    self.hear(liar, decode(heard))

    def hear(self, liar: Liar, message: Message) -> None:
        """Remember of which lease the agent spoke, and that no refusal is without a reason."""
        if isinstance(message, LeaseNoteMessage):
            liar.epoch = message.epoch
        if isinstance(message, RefusedMessage):
            must(message.text != "", "a refusal says why")
            must("the agent failed" not in message.text, "no lie makes the agent fail")

    # What must hold

    def check(self) -> None:
        """Raise Cost where a lie cost somebody else something."""
        agent = self.world.agent
        assert agent is not None
        agent.arbiter.check()
        views = {view.tenant: view for view in agent.arbiter.tenants()}
        self.check_honest()
        (gpu,) = agent.arbiter.gpus()
        contexts = sum(0 in c.gpus | c.unspoken for c in agent.clients.by_number.values())
        must(gpu.residue_bytes <= contexts, f"{contexts} contexts have {gpu.residue_bytes} bytes")
        for uid in LIARS:
            own = [c for c in agent.clients.by_number.values() if c.uid == uid]
            has = sum(on.allocated_bytes for c in own for on in views[c.number].gpus.values())
            must(has <= LIAR_BYTES, f"user {uid} has {has} bytes, and may have {LIAR_BYTES}")
            for client in own:
                most = client.share.memory_limit_bytes
                if most is not None:  # what others allocated counts for its user only
                    known = agent.arbiter._context.ledger.tenants[client.number]
                    most += sum(on.inherited_bytes for on in known.gpus.values())
                on_all = views[client.number].gpus.values()
                must(
                    most is None or all(on.allocated_bytes <= most for on in on_all),
                    f"process {client.pid} has more than {most} bytes",
                )
        must(len(agent.clients.by_number) <= len(HONEST) + 2 * AT_ONE_TIME, "clients pile up")
        must(len(agent.journal.ring) <= KEPT, "events pile up")
        must(len(agent.journal._repeats) <= SOURCES_MAX, "sources of events pile up")
        self.check_events()

    def check_honest(self) -> None:
        """Their bytes and limits are as they are; they are served, and refused nothing."""
        agent, now_s = self.world.agent, self.world.now_s()
        assert agent is not None
        self.world.check()
        for process in self.honest:
            must(process.is_connected and process.joins == 1, "an honest program lost its agent")
            must(not process.refusals, f"refused to an honest program: {process.refusals}")
            number = process.tenant
            client = agent.clients.by_number[number]
            must(client.limits == {0: CAPACITY}, f"its limit became {client.limits}")
            must(not client.fenced and not client.pinned, "it was fenced or pinned")
            has = agent.arbiter.allocated_bytes(number)
            truth = sum(block.bytes for block in process.blocks)
            waits = not process.is_idle_on_wire
            must(waits or has == truth, f"it has {truth} bytes, and the agent counts {has}")
            if process.wanted and not process.is_open:
                since_s = self.wants_since_s.setdefault(number, now_s)
                self.longest_s = max(self.longest_s, now_s - since_s)
                most_s = (AT_ONE_TIME + 1) * (TURN_S + DEADLINE_S) + SLACK_S
                must(now_s - since_s <= most_s, f"it waits since {now_s - since_s:.2f} s")
            else:
                self.wants_since_s.pop(number, None)
        kept = agent.arbiter.resident_bytes(self.honest[0].tenant, 0)
        must(kept >= KEPT_BYTES, f"of what is kept for it {kept} bytes are there")

    def check_events(self) -> None:
        """The honest programs' events are kept, and each bad message is its sender's."""
        assert self.world.agent is not None
        ring = self.world.agent.journal.ring
        joined = [e for e in ring if e.reason == "Joined" and e.uid == USER]
        must(len(joined) == len(HONEST), "an event of an honest program is gone")
        for event in ring:
            if event.reason in ("BadMessage", "ConnectionLost", "Pinned", "UnknownCall", "Killed"):
                must(event.uid in LIARS, f"an honest program is blamed: {event}")


class Twins(Lies):
    """The same, with honest programs of the liars' shares in their places.

    They use all that they may have, and want the GPU all the time.
    """

    def lie(self) -> None:
        """Let one of them come, end, or use the GPU."""
        world, dice = self.world, self.dice
        twins = [each for each in world.processes.values() if each not in self.honest]
        if not twins or (len(twins) < self.at_one_time and dice.random() < 0.1):
            share = dice.choice(LIAR_SHARES)
            twin = world.begin(share)
            twin.attach(0, 1, CAPACITY)
            world.settle()
            most = share.memory_limit_bytes or LIAR_BYTES
            twin.allocate(0, [1] * most)
        else:
            twin = dice.choice(twins)
            if dice.random() < 0.01:
                world.kill(twin)
            else:
                twin.touch()
        self.told += 1
        world.settle()

    def check_events(self) -> None:
        """Nothing: all are of one user."""

    def end(self) -> None:
        """All of them end."""
        for twin in [each for each in self.world.processes.values() if each not in self.honest]:
            self.world.kill(twin)


def must(holds: bool, what: str) -> None:
    """Raise Cost unless this holds."""
    if not holds:
        raise Cost(what)


@contextlib.contextmanager
def lies(
    dice: Random, order: Random, kind: type[Lies] = Lies, at_one_time: int = AT_ONE_TIME
) -> Iterator[Lies]:
    """A machine with honest programs; at the end all liars die, and nothing of them is left.

    `dice` say what is said, `order` which of several things happens first. `kind`: Lies or Twins.
    """
    settings = Settings(
        arena_bytes=1000,
        quantum_s=TURN_S,
        revoke_deadline_s=DEADLINE_S,
        overdue=OverduePolicy.KILL,
    )
    with World(order, settings) as world:
        here = kind(world, dice, at_one_time=at_one_time)
        here.begin()
        yield here
        here.end()
        world.until_rest(5.0, 0.1)
        here.check()
        assert world.agent is not None
        must(len(world.agent.clients.by_number) == len(HONEST), "a liar that is dead is left")


def lie_for(dice: Random, messages: int, order: Random | None = None) -> int:
    """Tell this many lies; returns how many there were."""
    before = len(os.listdir("/proc/self/fd"))
    with lies(dice, order or dice) as here:
        while here.told < messages:
            here.happen()
    until(lambda: len(os.listdir("/proc/self/fd")) <= before, "every descriptor to be closed")
    return here.told
