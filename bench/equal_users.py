"""How equally two users share a GPU when one has seven programs and the other has one.

Programs that always have work, on simgpu, of two users of one agent. Where all fit, the GPU's own
count says what each received; where they take turns, the agent's count, which charges hand-offs to
the program that causes them. The same for seven processes of one `moiety run` beside another run.
The baseline is the same eight programs without moiety.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.figure import Figure, table
from bench.latency import build
from moiety.devices.native import native_dir, simgpu_dir
from moiety.testing.waiting import until
from tests.support.simgpu_times import CardTimes
from tests.support.users import ALICE, BOB, OtherUser, open_folder
from tests.support.users_programs import Setting

GPU = "A100-80:memory=48MiB,link=8GB/s,residue=2MiB"
SMALL, LARGE = 2 << 20, 18 << 20
"""What each program allocates: small ones fit together, no two large ones do."""
MANY = 7
KERNEL_US, AHEAD = 2000, 20
BAR = 1.05
TURN_MOST_S = 60.0
FORKS = "for i in 1 2 3 4 5 6; do {} & done; exec {}"
Received = dict[int, float]


class Programs:
    """The programs of two users, and what each received so far, in seconds by pid."""

    def __init__(self, setting: Setting, stack: ExitStack) -> None:
        """None yet."""
        self.setting, self.stack = setting, stack
        self.users: list[OtherUser] = []

    def start(self, user: OtherUser, command: Sequence[str]) -> None:
        """One `moiety run` of a user, which ends with this."""
        self.setting.begin(user, "run", "--", *command)

    def user(self, uid: int) -> OtherUser:
        """A user, whose programs end with this."""
        found = self.setting.user(uid)
        self.users.append(self.stack.enter_context(found))
        return found

    def await_turn(self, pid: int) -> None:
        """Wait until the next turn of a program begins, so that whole rounds are counted."""

        def holds() -> bool:
            return any(r.pid == pid and r.state == "holding" for r in self.setting.agent.ps())

        until(lambda: not holds(), "its turn ends", TURN_MOST_S)
        until(holds, "its turn begins", TURN_MOST_S)

    def by_agent(self) -> Received:
        """By the agent's count."""
        return {row.pid: row.received_s for row in self.setting.agent.ps()}

    def by_card(self, card: CardTimes) -> Received:
        """By the GPU's count."""
        return {pid: us / 1e6 for pid, us in card.read()[1].items()}


def ratio(before: Received, after: Received, sides: Sequence[Sequence[int]]) -> float:
    """The most that a side received, over the least."""
    got_s = [sum(after[pid] - before.get(pid, 0.0) for pid in pids) for pids in sides]
    return max(got_s) / max(1e-9, min(got_s))


def shared(size: int, seconds: float, *, forks: bool) -> float:
    """The ratio under moiety; `forks`: both programs are of one user, and one has children."""
    native = native_dir()
    assert native is not None
    with open_folder() as folder, ExitStack() as stack:
        built = stack.enter_context(tempfile.TemporaryDirectory(prefix="mty"))
        client = build(Path(built), "busy")
        setting = Setting(folder, native, [client], gpu=GPU, options=["--linger", "0"])
        stack.enter_context(setting.agent)
        card = stack.enter_context(CardTimes(setting.agent.environment, native / "simgpu"))
        programs = Programs(setting, stack)
        command = [str(folder / "busy"), setting.kernels, str(KERNEL_US), str(AHEAD), str(size)]
        if forks:
            alice = programs.user(ALICE)
            text = " ".join(command)
            programs.start(alice, ["/bin/sh", "-c", FORKS.format(text, text)])
            programs.start(alice, command)
        else:
            alice, bob = programs.user(ALICE), programs.user(BOB)
            for _ in range(MANY):
                programs.start(alice, command)
            programs.start(bob, command)
        until(lambda: _are_ready(setting, size), "all have their memory")
        count: Callable[[], Received] = programs.by_agent
        if size == SMALL:
            count = partial(programs.by_card, card)
        by_side: dict[object, list[int]] = {}
        for row in setting.agent.ps():
            by_side.setdefault(row.workload if forks else row.uid, []).append(row.pid)
        (lone,) = min(by_side.values(), key=len)
        time.sleep(seconds / 5)
        if size == LARGE:
            programs.await_turn(lone)
        before = count()
        time.sleep(seconds)
        if size == LARGE:
            programs.await_turn(lone)
        found = ratio(before, count(), list(by_side.values()))
        for pid in [row.pid for row in setting.agent.ps()]:
            os.kill(pid, 9)
    return found


def _are_ready(setting: Setting, size: int) -> bool:
    rows = setting.agent.ps()
    return sum(row.allocated_bytes >= size for row in rows) == MANY + 1


def plain(seconds: float) -> float:
    """The ratio without moiety: seven programs against one."""
    simgpu = Path(str(simgpu_dir()))
    with open_folder() as folder:
        env: Mapping[str, str] = {
            **os.environ,
            "MOIETY_SIMGPU": GPU,
            "MOIETY_SIMGPU_STATE": str(folder / "state"),
            "LD_LIBRARY_PATH": str(simgpu),
        }
        client = build(folder, "busy")
        command = [str(client), str(simgpu / "kernels.elf"), str(KERNEL_US), str(AHEAD), str(SMALL)]
        with CardTimes(env, simgpu) as card:
            started = [
                subprocess.Popen(command, env=env, stdout=subprocess.PIPE) for _ in range(MANY + 1)
            ]
            try:
                for program in started:
                    assert program.stdout
                    program.stdout.readline()
                before = card.read()[1]
                time.sleep(seconds)
                after = card.read()[1]
            finally:
                for program in started:
                    program.kill()
                    program.wait()
    pids = [program.pid for program in started]
    return ratio(before, after, [pids[:MANY], pids[MANY:]])


def measure(seconds: float = 10.0) -> list[Figure]:
    """Two users and two runs of one user, where all fit and where they take turns."""
    if os.getuid() != 0:
        return []  # only root can act as two users
    found = {
        f"{what}, {case}": shared(size, seconds * (1 if size == SMALL else 3), forks=forks)
        for what, forks in (("users", False), ("runs of one user", True))
        for case, size in (("fit", SMALL), ("do not fit", LARGE))
    }
    note = "; ".join(f"{what} {value:.3f}" for what, value in found.items())
    worst, without = max(found.values()), plain(seconds / 2)
    return [
        Figure("equal_users_ratio", worst, "", BAR, "lower", "simgpu", len(found), without, note)
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    print(table(measure(parser.parse_args().seconds)))
