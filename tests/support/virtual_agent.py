"""A real agent's node with simulated processes, in virtual time: everything can go wrong here.

The agent is the real one from its sockets to its arbiter; processes, their deaths, the clock and
NVML are simulated. What a test asks for happens at once; what follows from it happens when the
agent and the processes are let run, one step at a time, in an order that is diced.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Self

from moiety.agent.components import Components, build
from moiety.agent.core.client import Client
from moiety.agent.core.orphans import Known
from moiety.agent.core.proofs import Held
from moiety.agent.core.rate_limits import RateLimits
from moiety.agent.shim.session import Session
from moiety.agent.system.processes import Peer
from moiety.agent.system.subordinate_users import unchanged
from moiety.arbiter.settings import Settings
from moiety.devices.budget import GpuBudget
from moiety.devices.interface import Usage
from moiety.model.share import NOTHING_ASKED, Share
from moiety.testing.fakes import FakeDevices
from moiety.testing.waiting import until
from tests.support.virtual_loop import LateExecutor, VirtualKernel, VirtualLoop
from tests.support.virtual_process import VirtualProcess

TOTAL, CAPACITY = 14, 10
"""Bytes of each GPU, and those of them that data may take: four contexts of one byte fit beside."""
USER = 1000
"""Whose all processes are."""
STEPS_MAX = 20_000
CAUSES = (
    "would exceed",
    "are full",
    "is full",
    "in time",
    "are left to this program",
    "are promised to",
    "cannot leave",
    "beside what its gang",
    "can not leave",
    "could leave",
    "would shut out tenant",
    "kept for one program: tenant",
    ": tenant",
)
"""Of them one stands in every refusal: what is in the way, or who."""
NVML_S = 0.5
"""How long an answer of NVML takes at most."""


class StrictLog:
    """A log in which an exception is one: the agent never says that a message made it fail."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def info(self, *_: object, **__: object) -> None:
        """Nothing to see."""

    def warning(self, event: str, **values: object) -> None:
        """Remember it."""
        self.warnings.append(f"{event} {values}")

    def exception(self, event: str, **values: object) -> None:
        """Called where one is being handled: it goes on to whoever runs the schedule."""
        del event, values
        raise  # noqa: PLE0704

    error = exception


class World:
    """One machine. `workloads` have a share each; a process belongs to one of them."""

    def __init__(self, dice: Random, settings: Settings, gpus: int = 1) -> None:
        self.dice = dice
        self.settings = settings
        self.kernel = VirtualKernel()
        self.devices = FakeDevices.of(*[TOTAL] * gpus)
        self.devices.usage = self._usage  # type: ignore[method-assign]
        self.uuids = [device.uuid_bytes for device in self.devices.devices]
        self.processes: dict[int, VirtualProcess] = {}
        self.shares: dict[int, Share] = {}
        self.liars: dict[int, socket.socket] = {}
        """Processes that are not simulated: only what is sent for them."""
        self.residues: dict[int, int] = {}
        self.written: dict[int, tuple[dict[int, Held | None], bool]] = {}
        """What the agent wrote down for the next one, by pid: what it has, and if it is fenced."""
        self.log = StrictLog()
        self.account_of: Callable[[int], int] = unchanged
        """The user whose limits count a user."""
        self.loop = VirtualLoop(0.0, dice)
        self.agent: Components | None = None
        self.agents = 0
        self._pids = itertools.count(100)
        self._sessions: list[Session] = []

    # The agent

    def start_agent(self, *, shared: bool = False) -> Components:
        """A new agent, which knows only what was written down; `shared`: it is of several users."""
        self.loop = VirtualLoop(self.loop.time(), self.dice)
        self.beside = LateExecutor()
        alive = {pid: kept for pid, kept in self.written.items() if self.is_alive(pid)}
        budget = GpuBudget(TOTAL, 0, 1, CAPACITY, 1)
        self.agent = build(
            self.loop,
            self.devices,
            [(device, budget) for device in self.devices.devices],
            self.settings,
            self.log,
            expected={pid: held for pid, (held, _) in alive.items()},
            fenced=[pid for pid, (_, fenced) in alive.items() if fenced],
            known={pid: Known(USER, f"w{pid}") for pid in alive},
            kernel=self.kernel,
            worker=self.beside,
            limits=RateLimits(account_of=self.account_of),
            shared=shared,
        )
        self.agent.clients.on_changed.append(self._write_down)
        self.agent.clients.on_left.append(self._strike_off)
        self.agents += 1
        return self.agent

    def kill_agent(self) -> None:
        """As kill -9 does: its descriptors close, and what it has not read is lost."""
        assert self.agent is not None
        for client in self.agent.clients.by_number.values():
            self._write_down(client)
            client.dispose()
        self.agent.orphans.stop()
        for each in self._sessions:
            each.abandon()
        self._sessions.clear()
        self.agent = None
        self.loop = VirtualLoop(self.loop.time(), self.dice)

    def _write_down(self, client: Client) -> None:
        assert self.agent is not None
        arbiter, proofs = self.agent.arbiter, self.agent.clients.proofs
        held = {
            gpu: proofs.beside(client, gpu, arbiter.has_bytes(client.number, gpu))
            for gpu in client.gpus | client.unspoken
        }
        self.written[client.pid] = (held, client.fenced)

    def _strike_off(self, client: Client) -> None:
        self.written.pop(client.pid, None)

    def _connect(self, process: VirtualProcess) -> socket.socket | None:
        return self.connect(process.number, self.shares[process.number])

    def connect(
        self, pid: int, share: Share = NOTHING_ASKED, uid: int = USER
    ) -> socket.socket | None:
        """One end of a connection, whose other end the agent has accepted."""
        if self.agent is None:
            return None
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        talk = Session(
            self.agent.sessions,
            theirs,
            peer=Peer(pid, uid, uid),
            workload=f"w{pid}",
            share=share,
        )
        self._sessions.append(talk)
        return ours

    # Processes

    def begin(self, share: Share = NOTHING_ASKED) -> VirtualProcess:
        """A new process, which has said nothing."""
        pid = next(self._pids)
        self.kernel.begin(pid)
        self.shares[pid] = share
        process = VirtualProcess(pid, self._connect, self.now_s, self.uuids)
        self.processes[pid] = process
        return process

    def begin_liar(self) -> int:
        """A process that says whatever it is made to."""
        pid = next(self._pids)
        self.kernel.begin(pid)
        return pid

    def end_liar(self, pid: int) -> None:
        """It is dead."""
        self.liars.pop(pid).close()
        self.kernel.end(pid)

    def now_s(self) -> float:
        """On the clock of whichever agent there is, or was."""
        return self.loop.time()

    def kill(self, process: VirtualProcess) -> None:
        """As kill -9 does: its memory is free at once."""
        del self.processes[process.number]
        process.dispose()
        self.kernel.end(process.number)

    def stop(self, process: VirtualProcess) -> None:
        """SIGSTOP."""
        process.stopped = True
        self.kernel.stopped.add(process.number)

    def go_on(self, process: VirtualProcess) -> None:
        """SIGCONT."""
        process.stopped = False
        self.kernel.stopped.discard(process.number)

    def is_alive(self, pid: int) -> bool:
        """Whether the process lives."""
        return self.kernel.start_time(pid) is not None

    def _usage(self, index: int) -> Usage:
        """The truth, as NVML tells it."""
        found = {
            pid: process.resident_bytes(index) + process.contexts[index]
            for pid, process in self.processes.items()
            if index in process.contexts
        }
        return Usage(sum(found.values()), None, found)

    # Running

    def step(self) -> bool:
        """Let somebody run, whoever the dice say; False: there is nothing to do."""
        choices: list[Any] = [self.serve, self.beside.run_one, *self.processes.values()]
        self.dice.shuffle(choices)
        for each in choices:
            done = each.work() if isinstance(each, VirtualProcess) else each()
            if done:
                self._bury()
                return True
        return False

    def serve(self) -> bool:
        """Let the agent run."""
        return self.agent is not None and self.loop.serve()

    def _bury(self) -> None:
        """Whom the agent ended is dead."""
        while self.kernel.killed:
            pid = self.kernel.killed.pop()
            if self.agent is not None:
                told = {e.pid for e in self.agent.journal.ring if e.reason == "Killed"}
                assert pid in told, f"process {pid} was ended, and nobody was told"
            if pid in self.processes:
                self.kill(self.processes[pid])
            elif pid in self.liars:
                self.end_liar(pid)

    def settle(self) -> None:
        """Until nothing is under way but time."""
        for _ in range(STEPS_MAX):
            if not self.step():
                return
        raise AssertionError("this does not come to rest")

    def wait(self, seconds: float) -> None:
        """Let time pass; the agent's timers fire, and NVML answers within half a second."""
        end_s = self.loop.time() + seconds
        while (left_s := end_s - self.loop.time()) > 1e-9:
            self.loop.advance(min(left_s, NVML_S))
            self._bury()
            if left_s > NVML_S:
                while self.beside.run_one():
                    self.loop.catch_up()

    def until_rest(self, seconds: float, step_s: float = 0.05) -> None:
        """Let so much time pass, and everybody do what there is to do all the while."""
        end_s = self.loop.time() + seconds
        while self.loop.time() < end_s:
            self.settle()
            self.wait(step_s)
        self.settle()

    # What must hold

    def check(self) -> None:
        """The truth fits into each GPU, each share and the host; behind an open gate it is there.

        Whoever was refused something was told why.
        """
        beyond = 0
        processes = self.processes.values()
        for gpu in range(len(self.uuids)):
            there = {process: process.bytes_on(gpu) for process in processes}
            contexts = sum(p.contexts.get(gpu, 0) for p in processes)
            data = sum(each.resident for each in there.values())
            assert data <= CAPACITY, f"GPU {gpu}: {data} bytes resident of {CAPACITY}"
            assert data + contexts <= TOTAL, f"GPU {gpu}: {data} and {contexts} of {TOTAL}"
            beyond += max(0, sum(each.admitted for each in there.values()) - CAPACITY)
            for process, has in there.items():
                most = self.shares[process.number].memory_limit_bytes
                assert most is None or has.admitted <= most, (process.number, has, most)
                if has.mapped != has.resident and gpu in process.contexts:
                    assert not process.is_open, f"process {process.number} lacks some of {has}"
        # Of who does not find a new agent, that one knows what is on the GPU, not what has left it.
        most = self.settings.arena_bytes
        assert self.agents > 1 or beyond <= most, f"{beyond} bytes are to leave, and {most} can"
        for process in processes:
            for no in process.refusals:
                assert any(cause in no.text for cause in CAUSES), no

    def check_empty(self) -> None:
        """After everybody is gone nothing is left: no byte, no client, no timer, no descriptor."""
        assert self.agent is not None
        for gpu in self.agent.arbiter.gpus():
            assert (gpu.resident_bytes, gpu.allocated_bytes, gpu.residue_bytes) == (0, 0, 0), gpu
        assert not self.agent.clients.by_number
        assert not self.agent.clients._grace
        own = {self.agent.handoff.event_fd} if self.agent.handoff else set()
        assert self.loop._readers.keys() == own, self.loop._readers
        assert not self.loop._writers

    def close(self) -> None:
        """Let go of everything."""
        for process in list(self.processes.values()):
            self.kill(process)
        for pid in list(self.liars):
            self.end_liar(pid)
        if self.agent is not None:
            self.kill_agent()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def no_descriptor_stays() -> Iterator[None]:
    """Every descriptor that is opened in this block is closed, at the latest by a thread."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    until(
        lambda: set(os.listdir("/proc/self/fd")) <= before,
        "every descriptor to be closed",
    )
