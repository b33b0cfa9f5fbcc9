"""How the stand-in driver divides a GPU's time between processes: in slices, as a card does."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from moiety.testing.waiting import until
from tests.support.simgpu_programs import Build, Holder
from tests.support.simgpu_times import CardTimes, parts

GPU = "A100-80:memory=256MiB,residue=2MiB"
WINDOW_US = 600_000.0
"""How much the processes receive together before their parts are looked at."""


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


def divided(card: CardTimes, programs: Sequence[Holder], window_us: float) -> list[float]:
    """The parts of the GPU that programs receive, once all have begun."""
    pids = [one.process.pid for one in programs]
    until(lambda: all(card.read()[1].get(pid, 0) > 4000 for pid in pids), "all have begun")
    before = card.read()
    begun_us = sum(before[1].values())
    until(lambda: sum(card.read()[1].values()) - begun_us >= window_us, "the window is over")
    found = parts(before, card.read())
    return [found[pid] for pid in pids]


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
        found = divided(card, programs, WINDOW_US)
        end(programs)
    for part in found:
        assert part / sum(found) == pytest.approx(1 / len(found), abs=0.05)


@pytest.mark.parametrize("cost_us", [0, 50, 1000])
def test_no_time_is_lost_but_what_switches_cost(
    cost_us: int, build: Build, gpu: dict[str, str], simgpu: Path
) -> None:
    env = gpu | {"MOIETY_SIMGPU": f"{GPU},switch={cost_us}us,slice=2ms"}
    with CardTimes(env, simgpu) as card:
        programs = begun(build, env, (2000, 200))
        began_s, before = card.read()
        switches = card.switches
        busy_us = sum(before.values())
        until(lambda: sum(card.read()[1].values()) - busy_us >= WINDOW_US, "the window is over")
        ended_s, after = card.read()
        switches = card.switches - switches
        end(programs)
    taken_us = sum(after.values()) - busy_us
    # A machine that is busy makes threads late, and each that is late costs one more switch.
    assert switches >= taken_us / 2000 * 0.7
    assert taken_us + switches * cost_us == pytest.approx((ended_s - began_s) * 1e6, rel=0.1)


def test_one_alone_pays_for_no_switch(build: Build, gpu: dict[str, str], simgpu: Path) -> None:
    env = gpu | {"MOIETY_SIMGPU": f"{GPU},switch=1ms"}
    with CardTimes(env, simgpu) as card:
        idle = Holder(build("simgpu_steady"), env, 200)
        (one,) = begun(build, env, (200,))
        assert 0.94 <= divided(card, [one], WINDOW_US)[0] <= 1.01
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
        long, short = divided(card, programs, WINDOW_US)
        end(programs)
    assert long > 4 * short


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_who_is_gone_in_the_middle_of_a_slice_holds_nobody_up(
    number: signal.Signals, build: Build, gpu: dict[str, str], simgpu: Path
) -> None:
    env = gpu | {"MOIETY_SIMGPU": GPU}
    with CardTimes(env, simgpu) as card:
        programs = begun(build, env, (7000, 200, 2000, 7000, 200))
        divided(card, programs, WINDOW_US / 4)
        gone, left = programs[:2], programs[2:]
        for one in gone:
            os.kill(one.process.pid, number)
        os.kill(left[0].process.pid, 0)
        found = divided(card, left, WINDOW_US)
        assert sum(found) > 0.9
        for part in found:
            assert part / sum(found) == pytest.approx(1 / 3, abs=0.05)
        for one in gone:
            one.process.kill()
            one.process.communicate()
        end(left)
