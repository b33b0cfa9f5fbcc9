"""Seeded days on a virtual machine on which everything goes wrong: one seed, one day, replayable.

    fate = live(seed)         # raises AssertionError with what did not hold
    fate.faults               # how often what was done to whom

After each step what must hold is looked at; at the end all who still live behave, every wait must
end, and once they are gone nothing may be left.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from moiety.arbiter.settings import OverduePolicy, Settings
from moiety.devices.interface import Usage
from moiety.model.share import NOTHING_ASKED, Share
from moiety.wire.codec import PACKERS
from moiety.wire.layout import HelloFlag, Type
from moiety.wire.messages import MESSAGES, HelloMessage
from tests.support.virtual_agent import CAPACITY, World
from tests.support.virtual_process import VirtualProcess

STEPS: Final = 150
DAYS_IN_CI: Final = 300
"""About a quarter of a minute."""
PROCESSES_MAX: Final = 5
DEADLINE_S: Final = 2.0
BUSY_STEPS: Final = 120
BUSY_STEP_S: Final = 0.03
OVERDUE: Final = (OverduePolicy.REPORT, *OverduePolicy)
SLACK: Final = 0.2
"""Of a limit on time, over so few windows of 250 ms."""
SHARES: Final = (
    NOTHING_ASKED,
    NOTHING_ASKED,
    Share(gpu=0.3),
    Share(gpu_limit=0.5),
    Share(memory_bytes=2),
    Share(memory_limit_bytes=6),
)
ODD: Final = (0, 1, 2, 5, 11, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
"""What liars say."""


@dataclass
class Fate:
    """What became of a day."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    """That liars sent."""


class Day:
    """One day of one machine."""

    shares: Sequence[Share] = SHARES

    def __init__(self, world: World, dice: Random, fate: Fate) -> None:
        self.world = world
        self.dice = dice
        self.fate = fate
        self.nvml = world.devices.usage

    # What programs do

    def begin(self) -> None:
        """One more program."""
        if len(self.world.processes) < PROCESSES_MAX:
            process = self.world.begin(self.dice.choice(self.shares))
            for gpu in self.dice.choice([(0,), (0,), (0,), (1,), (0, 1)]):
                process.attach(gpu, 1, CAPACITY)

    def begin_crowded(self) -> None:
        """Some programs that have their memory, and more of it than fits."""
        for _ in range(self.dice.randint(2, 4)):
            self.begin()
            self.world.settle()
        for process in list(self.world.processes.values()):
            for gpu in process.contexts:
                process.allocate(gpu, [self.dice.randint(1, 3) for _ in range(3)])
            process.touch()
            self.world.until_rest(0.2, 0.1)

    def allocate(self, process: VirtualProcess) -> None:
        """It asks for memory."""
        if process.contexts and len(process.blocks) < 6:
            chunks = [self.dice.randint(1, 4) for _ in range(self.dice.randint(1, 2))]
            gpu = self.dice.choice(sorted(process.contexts))
            process.allocate(gpu, chunks, pinned=self.dice.random() < 0.03)

    def free(self, process: VirtualProcess) -> None:
        """It frees some."""
        if blocks := [block for block in process.blocks if block.admitted]:
            process.free(self.dice.choice(blocks))

    def need(self, process: VirtualProcess) -> None:
        """Its driver runs out."""
        if process.contexts:
            process.need(self.dice.choice(sorted(process.contexts)), self.dice.randint(1, 3))

    def detach(self, process: VirtualProcess) -> None:
        """Its context goes."""
        gpus = [g for g in process.contexts if not any(order[0] == g for order in process.orders)]
        if gpus:
            process.detach(self.dice.choice(gpus))

    # What goes wrong: each returns whether it did

    def kill(self, process: VirtualProcess) -> bool:
        """SIGKILL."""
        self.world.kill(process)
        return True

    def stop(self, process: VirtualProcess) -> bool:
        """SIGSTOP, or SIGCONT."""
        if process.stopped:
            self.world.go_on(process)
        else:
            self.world.stop(process)
        return process.stopped

    def hang(self, process: VirtualProcess) -> bool:
        """It does not yield, or does again."""
        process.hung = not process.hung
        return process.hung

    def fail_to_move(self, process: VirtualProcess) -> bool:
        """There is no host memory for what it should move, or there is again."""
        process.eviction_fails = not process.eviction_fails
        return process.eviction_fails

    def spin(self, process: VirtualProcess) -> bool:
        """Its kernels never end, or they do."""
        process.depends = self.dice.choice([0, 1, 3, 1 << 40]) if process.is_open else 0
        return process.depends > 0

    def pin(self, process: VirtualProcess) -> bool:
        """Its memory cannot leave any more."""
        process.pin("cuIpcGetMemHandle")
        return True

    def drop(self, process: VirtualProcess) -> bool:
        """Its connection breaks."""
        there = process.is_connected and process.joins > 0
        if there:
            process.drop()
        return there

    def kill_agent(self) -> bool:
        """The agent is killed, and started again at some time."""
        if self.world.agent is None:
            self.world.devices.usage = self.nvml  # type: ignore[method-assign]  # else none starts
            self.world.start_agent()
            return False
        self.world.kill_agent()
        return True

    def lose_nvml(self) -> bool:
        """NVML does not answer, as for a GPU that fell off the bus; or does again.

        Not while an agent begins: what those have that do not come back, nobody else knows.
        """
        if self.world.agent is None or not self.world.agent.recovery.is_settled:
            return False
        if self.world.devices.usage is not self.nvml:
            self.world.devices.usage = self.nvml  # type: ignore[method-assign]
            return False

        def lost(index: int) -> Usage:
            raise OSError(f"GPU {index} is lost")

        self.world.devices.usage = lost  # type: ignore[method-assign]
        return True

    def lie(self) -> bool:
        """Somebody who is no shim connects, or says something that may make no sense."""
        world, dice = self.world, self.dice
        if world.agent is None:
            return False
        if len(world.liars) < 3:
            pid = world.begin_liar()
            sock = world.connect(pid)
            assert sock is not None
            world.liars[pid] = sock
            flags = dice.choice([0, 0, 0, *HelloFlag, HelloFlag.RESUMED | HelloFlag.HOLDING])
            hello = HelloMessage(
                pid=pid, flags=int(flags), epoch=dice.choice([0, 1, 7]), program="liar"
            )
            self.send(pid, hello.encode() if dice.random() < 0.9 else dice.randbytes(24))
            return True
        pid = dice.choice(list(world.liars))
        if dice.random() < 0.1:
            world.end_liar(pid)
            return False
        for _ in range(dice.choice([1, 1, 3, 200])):
            self.send(pid, lie(dice, world.uuids))
        return True

    def send(self, pid: int, packet: bytes) -> None:
        """A liar says something, if its socket takes it."""
        sock = self.world.liars[pid]
        self.fate.messages += 1
        try:
            sock.send(packet)
            while sock.recv(4096):
                pass
        except OSError:
            pass  # full, empty, or the agent has hung up

    # The day, and its end

    def live(self) -> None:
        """Some steps of it."""
        for what in self.dice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS):
            self.happen(what)
            self.world.check()

    def happen(self, what: str) -> None:
        """Do this, to somebody."""
        processes = list(self.world.processes.values())
        if what == "wait":
            self.world.wait(self.dice.choice([0.0005, 0.03, 0.2, 0.2, 1.1, 3.0]))
        elif what == "step":
            for _ in range(self.dice.randint(1, 12)):
                self.world.step()
                self.world.check()
        elif what == "begin":
            self.begin()
        elif what in ("kill_agent", "lose_nvml", "lie"):
            self.fate.faults[what] += getattr(self, what)()
        elif processes:
            process = self.dice.choice(processes)
            if what in FAULTS:
                self.fate.faults[what] += FAULTS[what](self, process)
            elif process.stopped:
                return  # nor does any thread of it run
            elif what == "touch":
                process.touch()
            elif what == "fall_idle":
                process.fall_idle()
            else:
                {"allocate": self.allocate, "free": self.free, "need": self.need}.get(
                    what, self.detach
                )(process)

    def end(self) -> None:
        """All who live behave; every wait ends; then all leave, and nothing is left."""
        world = self.world
        for pid in list(world.liars):
            world.end_liar(pid)
        world.devices.usage = self.nvml  # type: ignore[method-assign]
        if world.agent is None:
            world.start_agent()
        for process in world.processes.values():
            process.hung = process.eviction_fails = False
            process.depends = 0
            world.go_on(process)
        waiting = list(world.processes.values())
        for _ in range(60):
            world.settle()
            world.check()
            world.wait(self.dice.choice([0.3, 3.0, 30.0]))
            waiting = [p for p in waiting if p.waits and p.number in world.processes]
        world.settle()
        self.check_served([p for p in waiting if p.waits and p.number in world.processes])
        self.check_limits()
        for process in list(world.processes.values()):
            world.kill(process)
        for _ in range(4):
            world.settle()
            world.wait(3.0)
        world.check_empty()

    def check_served(self, waiting: list[VirtualProcess]) -> None:
        """Whoever still waits has a reason that lies in what it asked for, or pinned unasked."""
        assert self.world.agent is not None
        views = {view.tenant: view for view in self.world.agent.arbiter.tenants()}
        for process in waiting:
            view = views[process.tenant]
            is_fenced = (
                self.world.settings.overdue is OverduePolicy.FENCE
                and view.pinned
                and "it shuts out others" in view.reason
            )
            assert is_fenced or "do not fit into" in view.reason, (process.__dict__, views)

    def check_limits(self) -> None:
        """Whoever may have a part of the time has no more of it, however much all of them want.

        Those with a lease on a GPU divide its time equally.
        """
        world = self.world
        shares = world.shares
        there = [process for process in world.processes.values() if process.contexts]
        limited = {p: 0.0 for p in there if shares[p.number].gpu_limit < 1}
        if not limited or world.settings.turn_factor:
            return  # where turns last as long as hand-offs say, a limit holds over several of them
        for step in range(BUSY_STEPS):
            for process in world.processes.values():
                process.touch()
            world.settle()
            world.check()
            if step >= BUSY_STEPS // 4:  # what was saved up before is used up
                for process in limited:
                    limited[process] += _received(process, there)
            world.wait(BUSY_STEP_S)
        for process, held in limited.items():
            part, most = held / (BUSY_STEPS * 3 // 4), shares[process.number].gpu_limit
            assert part <= most + SLACK, f"process {process.number} had {part:.0%} of the time"


FAULTS: Final[dict[str, Callable[[Day, VirtualProcess], bool]]] = {
    "kill": Day.kill,
    "stop": Day.stop,
    "hang": Day.hang,
    "fail_to_move": Day.fail_to_move,
    "spin": Day.spin,
    "pin": Day.pin,
    "drop": Day.drop,
}
WEIGHTS: Final = {
    "begin": 1.0,
    "allocate": 1.5,
    "free": 1.0,
    "need": 0.5,
    "detach": 0.2,
    "touch": 8.0,
    "fall_idle": 2.0,
    "step": 25.0,
    "wait": 6.0,
    "kill": 0.6,
    "stop": 0.8,
    "hang": 0.6,
    "fail_to_move": 0.5,
    "spin": 0.6,
    "pin": 0.1,
    "drop": 1.5,
    "kill_agent": 0.8,
    "lose_nvml": 0.4,
    "lie": 1.5,
}


def lie(dice: Random, uuids: list[bytes]) -> bytes:
    """A packet with the right size for its type, most of the time, and odd numbers in it."""
    if dice.random() < 0.05:
        return dice.randbytes(dice.randrange(0, 300))
    cls = dice.choice(MESSAGES)
    kind = dice.choice(cls.TYPES)
    size = PACKERS[cls.LAYOUT].size
    body = bytearray(size)
    struct.pack_into("<HHI", body, 0, kind, size, dice.randrange(0, 4))
    for at in range(8, size - 3, 8):
        if dice.random() < 0.7 and at + 8 <= size:
            struct.pack_into("<Q", body, at, dice.choice(ODD))
        else:
            struct.pack_into("<I", body, at, dice.choice([0, 0, 1, 2, 3, 31, 1 << 31]))
    if kind in (Type.ATTACH, Type.LIMIT_QUERY):
        body[8:24] = dice.choice([*uuids, bytes(16)])
    return bytes(body)


def _received(process: VirtualProcess, among: list[VirtualProcess]) -> float:
    """The part of a GPU's time that a process has now, beside the others with a lease there."""
    if not process.is_open:
        return 0.0
    beside = [sum(p.is_open and gpu in p.contexts for p in among) for gpu in process.contexts]
    return 1.0 / min(beside, default=1)


def settings_of(dice: Random) -> Settings:
    """The settings of a day."""
    arena, factor = dice.choice([1000, 1000, 6]), dice.choice([0.0, 9.0])
    settings = Settings(arena, turn_factor=factor, revoke_deadline_s=DEADLINE_S)
    return replace(settings, overdue=dice.choice(OVERDUE))


def live(seed: int) -> Fate:
    """One day; raises AssertionError where something does not hold."""
    dice, fate = Random(seed), Fate(seed)
    with World(dice, settings_of(dice), gpus=2) as world:
        world.start_agent()
        day = Day(world, dice, fate)
        day.begin_crowded()
        day.live()
        day.end()
    return fate


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(live(int(each)))
