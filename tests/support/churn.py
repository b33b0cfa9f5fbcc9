"""Tenants that come and go, many a second: each a process of its own that says what a shim would.

    crowd = Crowd(directory)
    crowd.pass_by(1000)        # AssertionError: not all of them were served

`python -m tests.support.churn TENANTS [SEED]` does that for the agent in MOIETY_DIR. Each makes a
workload, asks for more than it may have and for more than half of a GPU, takes turns with those who
are there at the same time, and goes: most without a word, some in order, some after their
connection broke, some because they are hung up on. A fork has the process id and the end that the
agent looks at; it loads no driver, so that a tenant costs little but what it costs the agent.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from random import Random
from typing import Final

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.agent.system.paths import Directory, find
from moiety.model.gang import Gang
from moiety.wire.layout import TOKEN_BYTES, EvictedFlag, HelloFlag, Type
from moiety.wire.message import Message
from moiety.wire.messages import (
    AllocMessage,
    AmountMessage,
    AttachedMessage,
    DrainedMessage,
    LeaseNoteMessage,
    PinnedMessage,
    RefusedMessage,
    ShareMessage,
    UnknownMessage,
)
from tests.support.wire_end import Closed, Hung
from tests.support.wire_fakes import Shim

TOGETHER: Final = 4
"""Of them at a time."""
ASKS: Final = 64
"""What each asks for and does not get: each is written down, so that a thousand go round the rings
of the timeline twice."""
PATIENCE_S: Final = 300.0
REVOKED_S: Final = 0.02
"""Who holds goes when nobody has wanted the GPU for so long."""
ENDS: Final = ("dies",) * 5 + ("leaves", "breaks", "raves")
EXTRAS: Final = ("",) * 6 + ("pinned", "unknown", "exports", "gang")


class Crowd:
    """Tenants of one agent, on its first GPU."""

    def __init__(self, directory: Directory, seed: int = 1, asks: int = ASKS) -> None:
        """`asks`: what each asks for in vain."""
        self._asks = asks
        self._directory = directory
        self._dice = Random(seed)
        self._kept: set[str] = set()
        """Workloads that were there before, and stay."""
        with Call(directory) as call:
            gpu = call.ask(protocol.Status(), protocol.NodeStatus).gpus[0]
        self._uuid = bytes.fromhex(gpu.uuid.split("-", 1)[1].replace("-", ""))
        self._bytes = gpu.capacity_bytes * 6 // 10

    def pass_by(self, tenants: int) -> None:
        """So many come and go; raises AssertionError if not all were served."""
        there: set[int] = set()
        failed = 0
        self._kept = self._workloads()
        for _ in range(tenants):
            seed = self._dice.getrandbits(32)
            if len(there) == TOGETHER:
                failed += _bury(there)
            if child := os.fork():
                there.add(child)
            else:
                self._live(Random(seed))
        while there:
            failed += _bury(there)
        assert not failed, f"{failed} of {tenants} tenants were not served"
        self._until_empty()

    def _until_empty(self) -> None:
        """Whoever went without a word is noticed, and nothing of it is left."""
        deadline_s = time.monotonic() + PATIENCE_S
        with Call(self._directory) as call:
            while (
                call.ask(protocol.Status(), protocol.NodeStatus).tenants
                or self._workloads() - self._kept
            ):
                assert time.monotonic() < deadline_s, "something of the last of them is left"
                time.sleep(0.01)

    def _workloads(self) -> set[str]:
        return {folder.name for folder in self._directory.workloads.glob("*")}

    def _live(self, dice: Random) -> None:
        """The child: never comes back."""
        code = 1
        try:
            Tenant(self._directory, self._uuid, self._bytes, dice).live(self._asks)
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)


class Tenant:
    """One of them."""

    def __init__(self, directory: Directory, uuid: bytes, amount: int, dice: Random) -> None:
        self._uuid = uuid
        self._bytes = amount
        self._dice = dice
        self._extra = dice.choice(EXTRAS)
        gang = Gang(f"gang{os.getpid()}", 1) if self._extra == "gang" else None
        name = f"tenant{os.getpid()}"
        with Call(directory, PATIENCE_S) as call:
            wanted = protocol.CreateWorkload(name, [name], "/", gang=gang)
            self._shim = Shim(call.ask(wanted, protocol.Created).socket, connect=False)
        self._shim.connect(PATIENCE_S)
        self._gpu = 0
        self._holds = False
        self._resident = 0
        self._allocated = 0
        self._answered = 0
        """Requests that were."""

    def live(self, asks: int) -> None:
        """All of it."""
        shim = self._shim
        shim.hello(f"tenant{os.getpid()}", timeout_s=PATIENCE_S)
        self._gpu = shim.attach(self._uuid, timeout_s=PATIENCE_S).gpu
        shim.context(self._gpu)
        for _ in range(asks):
            self._ask(1 << 50)
        for _ in range(asks // 4):
            self._ask(1 << 20)
            shim.free(self._gpu, 1 << 20, 1 << 20)
        self._ask(self._bytes)
        self._allocated = self._bytes
        self._do_extra()
        for _ in range(self._dice.choice((1, 1, 2))):
            self._take_turn()
        getattr(self, f"_{self._dice.choice(ENDS)}")()

    def _do_extra(self) -> None:
        """What not every program does."""
        shim = self._shim
        if self._extra == "pinned":
            shim.send(PinnedMessage(reason="cuIpcGetMemHandle"))
        elif self._extra == "unknown":
            shim.send(UnknownMessage(calls=1, name="cuNobodyKnows"))
        elif self._extra == "exports":
            token = self._dice.randbytes(TOKEN_BYTES)
            shim.send(ShareMessage(Type.EXPORT, 0, token, gpu=self._gpu, bytes=1 << 20))

    # Requests, and what the agent says

    def _ask(self, amount: int) -> None:
        """Ask for bytes, and wait until that is answered."""
        self._shim.alloc(self._gpu, amount)
        self._until(lambda: self._answered == self._shim.serial - 1, PATIENCE_S)

    def _until(self, done: object, patience_s: float) -> bool:
        """Do what the agent says until then; False: it said nothing for too long."""
        assert callable(done)
        while not done():
            try:
                self._hear(self._shim.receive(patience_s))
            except Hung:
                return False
        return True

    def _hear(self, message: Message) -> None:
        shim, gpu = self._shim, self._gpu
        match message:
            case AmountMessage(type=Type.ALLOC_REPLY) | RefusedMessage() | AttachedMessage():
                self._answered += message.serial > 0
            case AmountMessage(type=Type.RESTORE_BUDGET, bytes=amount):
                self._resident += amount
                if self._resident >= self._allocated:
                    shim.restored()
            case AmountMessage(type=Type.EVICT, bytes=amount):
                moved = min(amount, self._resident)
                self._resident -= moved
                flags = EvictedFlag.LAST | (EvictedFlag.FAILED if moved < amount else 0)
                shim.evicted(gpu, moved, self._resident, int(flags))
            case LeaseNoteMessage(type=Type.GRANT):
                self._holds = True
                self._resident = self._allocated
            case LeaseNoteMessage(type=Type.REVOKE, epoch=epoch):
                self._holds = False
                shim.send(DrainedMessage(epoch=epoch, gpu=gpu, resident_bytes=self._resident))

    def _take_turn(self) -> None:
        """Hold the GPU until somebody else wants it."""
        if not self._holds:
            self._shim.want()
        assert self._until(lambda: self._holds, PATIENCE_S), "it was never its turn"
        self._until(lambda: not self._holds, REVOKED_S)

    # How it ends

    def _dies(self) -> None:
        """Without a word."""

    def _leaves(self) -> None:
        """In order."""
        self._shim.free(self._gpu, self._allocated, self._resident)
        self._shim.send(AmountMessage(Type.DETACH, 0, self._gpu))
        self._shim.close()

    def _breaks(self) -> None:
        """After it came back once."""
        flags = HelloFlag.RESUMED | (HelloFlag.HOLDING if self._holds else 0)
        self._shim.sock.close()
        self._shim.connect(PATIENCE_S)
        self._shim.hello(flags=int(flags), epoch=self._shim.epoch, timeout_s=PATIENCE_S)

    def _raves(self) -> None:
        """Because nobody understands it."""
        self._shim.send(AllocMessage(serial=1, gpu=9, bytes=1))
        try:
            self._until(lambda: False, PATIENCE_S)
        except (Closed, OSError):
            return
        raise AssertionError("it was not hung up on")


def _bury(there: set[int]) -> int:
    """Wait for one of them; 1 if it did not end well. Others may have children here, too."""
    while True:
        for child in there:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                there.discard(child)
                return int(status != 0)
        time.sleep(0.001)


if __name__ == "__main__":
    count, *rest = map(int, sys.argv[1:])
    Crowd(find(), *rest).pass_by(count)
