"""How the stand-in driver divides a GPU's time between processes: in slices, as a card does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from moiety.testing.waiting import until
from tests.support.simgpu_programs import Build, Holder
from tests.support.simgpu_times import CardTimes, parts

GPU = "A100-80:memory=256MiB,residue=2MiB"
WINDOW_US = 300_000.0
"""How much the processes receive together in one window."""
WINDOWS = 40
"""Of these one must be right: a busy host holds programs up, and then they have no work queued."""


def begun(build: Build, env: dict[str, str], kernels_us: Sequence[int]) -> list[Holder]:
    """Programs that always have such kernels queued."""
    programs = [Holder(build("simgpu_steady"), env, us) for us in kernels_us]
    for one in programs:
        tell(one)
    return programs


def tell(program: Holder) -> None:
    assert program.process.stdin
    program.process.stdin.write("\n")
    program.process.stdin.flush()


class Window:
    """What processes received of a GPU while they together received `WINDOW_US`."""

    def __init__(self, card: CardTimes, pids: Sequence[int]) -> None:
        """Wait for the end of a window that begins now."""
        before, switches = card.read(), card.switches
        begun_us = sum(before[1].values())
        until(lambda: sum(card.read()[1].values()) - begun_us >= WINDOW_US, "the window is over")
        after = card.read()
        found = parts(before, after)
        self.parts = [found[pid] for pid in pids]
        """Of the GPU's time, by process."""
        self.took_us = (after[0] - before[0]) * 1e6
        self.switches = card.switches - switches

    @property
    def busy(self) -> float:
        """The part of the GPU's time that the processes received together."""
        return sum(self.parts)

    def is_equal(self) -> bool:
        """Whether each received the same, within 5 points of a hundred."""
        equal = self.busy / len(self.parts)
        return all(abs(part - equal) <= 0.05 * self.busy for part in self.parts)

    def __repr__(self) -> str:
        """For a failed test."""
        return f"{[round(part, 3) for part in self.parts]} and {self.switches} switches"


def find_window(
    card: CardTimes, programs: Sequence[Holder], is_right: Callable[[Window], bool]
) -> None:
    """Look at one window after another, once all programs have begun, until one is right."""
    pids = [one.process.pid for one in programs]
    until(lambda: all(card.read()[1].get(pid, 0) > 4000 for pid in pids), "all have begun")
    seen: list[Window] = []
    while not seen or not is_right(seen[-1]):
        assert len(seen) < WINDOWS, seen
        seen.append(Window(card, pids))


def end(programs: Sequence[Holder]) -> None:
    for one in programs:
        tell(one)
    for one in programs:
        one.end()


@pytest.mark.parametrize("kernels_us", [(2000, 200), (200, 200), (7000, 200, 2000)])
def test_processes_receive_equal_parts(
    kernels_us: tuple[int, ...], build: Build, gpu: dict[str, str], simgpu: Path
) -> None:
    env = gpu | {"MOIETY_SIMGPU": GPU}
    with CardTimes(env, simgpu) as card:
        programs = begun(build, env, kernels_us)
        find_window(card, programs, Window.is_equal)
        end(programs)


@pytest.mark.parametrize("cost_us", [0, 50, 1000])
def test_no_time_is_lost_but_what_switches_cost(
    cost_us: int, build: Build, gpu: dict[str, str], simgpu: Path
) -> None:
    def is_right(window: Window) -> bool:
        busy_us = window.busy * window.took_us
        whole_us = busy_us + window.switches * cost_us
        # Threads that the host holds up get their slices later, several in one.
        return window.switches >= busy_us / 2000 * 0.4 and abs(whole_us / window.took_us - 1) < 0.1

    env = gpu | {"MOIETY_SIMGPU": f"{GPU},switch={cost_us}us,slice=2ms"}
    with CardTimes(env, simgpu) as card:
        programs = begun(build, env, (2000, 200))
        find_window(card, programs, is_right)
        end(programs)


def test_one_alone_pays_for_no_switch(build: Build, gpu: dict[str, str], simgpu: Path) -> None:
    env = gpu | {"MOIETY_SIMGPU": f"{GPU},switch=1ms"}
    with CardTimes(env, simgpu) as card:
        idle = Holder(build("simgpu_steady"), env, 200)
        (one,) = begun(build, env, (200,))
        find_window(card, [one], lambda window: 0.94 <= window.busy <= 1.05)
        assert card.switches == 0
        assert card.read()[1][idle.process.pid] == 0
        tell(idle)
        end([one, idle])


@pytest.mark.parametrize("how", ["mps=1", "slice=0ms"])
def test_without_slices_longer_kernels_receive_more(
    how: str, build: Build, gpu: dict[str, str], simgpu: Path
) -> None:
    env = gpu | {"MOIETY_SIMGPU": f"{GPU},{how}"}
    with CardTimes(env, simgpu) as card:
        programs = begun(build, env, (2000, 200))
        find_window(card, programs, lambda window: window.parts[0] > 4 * window.parts[1])
        end(programs)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_who_is_gone_in_the_middle_of_a_slice_holds_nobody_up(
    number: signal.Signals, build: Build, gpu: dict[str, str], simgpu: Path
) -> None:
    env = gpu | {"MOIETY_SIMGPU": GPU}
    with CardTimes(env, simgpu) as card:
        programs = begun(build, env, (7000, 200, 2000, 7000, 200))
        find_window(card, programs, lambda _: True)
        gone, left = programs[:2], programs[2:]
        for one in gone:
            os.kill(one.process.pid, number)
        find_window(card, left, lambda window: window.busy > 0.9 and window.is_equal())
        for one in gone:
            one.process.kill()
            one.process.communicate()
        end(left)
