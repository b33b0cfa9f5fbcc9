"""A virtual machine whose agent reads programs' sockets in the native thread.

The thread is the real one, and runs whenever it likes: beside each step of Python a message may be
read, and fire what is armed. Only time is virtual.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from random import Random

from moiety.agent.components import Components
from moiety.agent.core.native_reader import NativeReader, Shot, Taken
from moiety.arbiter.settings import Settings
from moiety.model.share import Priority, Share
from tests.support.chaos import DEADLINE_S, SHARES, Day, Fate, settings_of
from tests.support.virtual_agent import CAPACITY, World
from tests.support.virtual_loop import VirtualLoop

FOR_EVER_NS = (1 << 63) - 1
_SHORTEST_S = 1e-5
CLASSES = (
    *SHARES,
    Share(latency=True),
    Share(gpu=0.2, latency=True),
    Share(priority=Priority.HIGH),
)
CALM = (Share(), Share(latency=True), Share(priority=Priority.HIGH))
CALM_FAULTS = ("free", "allocate", "stop", "hang", "drop", "kill", "kill_agent", "begin", "pin")
CALM_TURNS = 30


class VirtualReader(NativeReader):
    """The thread by a virtual clock, which stands while a transition is armed.

    `hold_ns` is real time: none, or for ever, so that tests say when it ends.
    """

    def __init__(self, loop: VirtualLoop, hold_ns: int) -> None:
        super().__init__(1 << 16, hold_ns)
        self._loop = loop
        self._sockets: dict[int, int] = {}

    def add(self, fd: int, account: int) -> int:
        """The same, and it is waited for."""
        key = super().add(fd, account)
        self._sockets[key] = fd
        return key

    def remove(self, key: int) -> None:
        """The same."""
        super().remove(key)
        del self._sockets[key]

    def take(self) -> Taken | None:
        """The same, at this time."""
        taken = super().take()
        return taken and taken._replace(at_s=self._loop.time())

    def arm(self, shots: Sequence[Shot], heads: int | None = None) -> bool:
        """Those whose time it is not now do not fire."""
        now_ns = self._loop.time() * 1e9
        for shot in shots:
            is_in_time = shot.not_before_ns <= now_ns <= shot.not_after_ns
            shot.not_before_ns = 0
            shot.not_after_ns = FOR_EVER_NS if is_in_time else -1
            shot.asks_until_ns = FOR_EVER_NS if now_ns <= shot.asks_until_ns else -1
        return super().arm(shots, heads)

    def rest(self) -> None:
        """Wait until the thread has read all that was sent, or has something for Python."""
        poll = select.poll()
        for fd in self._sockets.values():
            poll.register(fd, select.POLLIN)
        poll.register(self.event_fd, select.POLLIN)
        while ready := poll.poll(0):
            if any(fd == self.event_fd for fd, _ in ready):
                break
            time.sleep(_SHORTEST_S)
        self.resume(0)  # no such connection: what the thread is doing now is done after that

    def until_read(self) -> None:
        """Wait until the thread has read all that was sent, whatever Python knows of it."""
        poll = select.poll()
        for fd in self._sockets.values():
            poll.register(fd, select.POLLIN)
        while any(event == select.POLLIN for _, event in poll.poll(0)):  # not from who hung up
            time.sleep(_SHORTEST_S)
        self.resume(0)


class NativeWorld(World):
    """A machine whose agents have such a thread."""

    fired = followed = 0
    hold_ns = 0
    """How long the thread lets an agent sleep after the first half of a hand-off."""

    def start_agent(self, *, shared: bool = False) -> Components:
        """A new agent, with a thread of its own."""
        agent = super().start_agent(shared=shared)
        self.reader = VirtualReader(self.loop, self.hold_ns)
        agent.add_fast_handoff(self.reader)
        return agent

    def kill_agent(self) -> None:
        """As kill -9 does: what the thread has read is lost."""
        assert self.agent is not None
        assert self.agent.handoff is not None
        self.fired += self.agent.handoff.fired
        self.followed += self.agent.handoff.followed
        self.agent.handoff.stop()
        super().kill_agent()

    def serve(self) -> bool:
        """Let the agent run; at times before the thread has read all that was sent."""
        if self.agent is not None and self.dice.random() < 0.8:
            self.reader.rest()
            return super().serve()
        done = super().serve()
        if self.agent is not None and not done:
            self.reader.rest()
            done = super().serve()
        return done

    def step(self) -> bool:
        """The same; the agent sleeps no longer if there is nothing else to do."""
        if self.agent is not None and self.hold_ns and self.dice.random() < 0.2:
            self.end_hold()
        return super().step() or (self.hold_ns > 0 and self.end_hold())

    def end_hold(self) -> bool:
        """Have the agent take in what was carried out; False: nothing was."""
        if self.agent is None or self.agent.handoff is None:
            return False
        handoff = self.agent.handoff
        before = handoff.fired
        self.agent.runtime.settle()
        self.loop.catch_up()
        return handoff.fired > before

    def wait(self, seconds: float) -> None:
        """Let time pass; what is armed is armed anew for the time that it is then."""
        if self.agent is not None:
            self.reader.rest()
            self.end_hold()
        super().wait(seconds)
        self.end_hold()


def live(seed: int, *, classes: bool = False, holds: bool = False) -> tuple[Fate, int, int]:
    """A day of chaos; returns what became of it, how many transitions fired, and how many followed.

    With `holds` the agent sleeps after the first half of a hand-off until something wakes it. With
    `classes`, some programs may wait until its end, and nothing is checked of that.
    """
    dice = Random(seed)
    fate = Fate(seed)
    with NativeWorld(dice, settings_of(dice), gpus=2) as world:
        world.hold_ns = FOR_EVER_NS if holds else 0
        agent = world.start_agent()
        day = Day(world, dice, fate)
        if classes:
            day.shares = CLASSES
        day.begin_crowded()
        day.live()
        if classes:
            world.until_rest(1.0)
            world.check()
        else:
            day.end()
        agent = world.agent or agent
        assert agent.handoff is not None
        handoff = agent.handoff
        return fate, world.fired + handoff.fired, world.followed + handoff.followed


def live_calmly(seed: int, *, holds: bool) -> tuple[int, int]:
    """A day on which programs that all fit take a GPU from each other, and fall idle in between.

    Returns how many transitions fired, and how many of them followed another one.
    """
    dice = Random(seed)
    settings = Settings(1000, turn_factor=0.0, revoke_deadline_s=DEADLINE_S)
    with NativeWorld(dice, settings, gpus=2) as world:
        world.hold_ns = FOR_EVER_NS if holds else 0
        world.start_agent()
        day = Day(world, dice, Fate(seed))
        for share in (Share(), Share(latency=True), *dice.choices(CALM, k=dice.choice([0, 0, 1]))):
            process = world.begin(share)
            process.attach(0, 1, CAPACITY)
            world.settle()
            process.allocate(0, [1])
            world.until_rest(0.1)
        for _ in range(CALM_TURNS):
            for process in list(world.processes.values()):
                if dice.random() < 0.8 and not process.stopped:
                    process.touch()
                    day.happen("step")
            if dice.random() < 0.3:
                day.happen(dice.choice(CALM_FAULTS))
            world.settle()
            for process in list(world.processes.values()):
                process.fall_idle()
            world.until_rest(dice.choice([0.05, 0.3]))
            world.check()
        handoff = world.agent.handoff if world.agent else None
        fired, followed = (handoff.fired, handoff.followed) if handoff else (0, 0)
        return world.fired + fired, world.followed + followed


def world(settings: Settings, hold_ns: int = 0) -> NativeWorld:
    """A machine with one GPU and an agent."""
    made = NativeWorld(Random(1), settings)
    made.hold_ns = hold_ns
    made.start_agent()
    return made
