"""Several processes on the stand-in driver: they share its memory and its time."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from moiety.testing.waiting import DEADLINE_S, until
from tests.support.simgpu_programs import MIB, Build, Holder

ENDS = 40
"""How often a process ends amid calls, of which each meets another moment."""


def test_processes_share_what_there_is(build: Build, gpu: dict[str, str]) -> None:
    hold = build("simgpu_hold")
    first = Holder(hold, gpu, 100 * MIB)
    assert first.free_bytes == (256 - 2 - 100) * MIB
    second = Holder(hold, gpu, 50 * MIB)
    assert second.free_bytes == (256 - 2 - 100 - 2 - 50) * MIB
    third = Holder(hold, gpu, 200 * MIB)
    assert third.said == ["out", "of", "memory"]
    third.end()

    first.kill()
    fourth = Holder(hold, gpu, 200 * MIB)
    assert fourth.free_bytes == 2 * MIB
    for one in (first, second, fourth):
        one.end()
    last = Holder(hold, gpu, 0)
    assert last.free_bytes == 254 * MIB
    last.end()


def test_processes_of_other_pid_namespaces_count_too(build: Build, gpu: dict[str, str]) -> None:
    apart = ["--pid", "--fork", "--mount-proc", "--kill-child"]
    if not shutil.which("unshare") or subprocess.run(["unshare", *apart, "true"]).returncode:
        pytest.skip("PID namespaces cannot be made here")
    hold = build("simgpu_hold")
    outside = Holder(hold, gpu, 100 * MIB)
    inside = Holder(Path("unshare"), gpu, *apart, hold, 50 * MIB)
    assert inside.free_bytes == (256 - 2 - 100 - 2 - 50) * MIB, "outside is not taken for dead"
    third = Holder(hold, gpu, 0)
    assert third.free_bytes == (256 - 2 - 100 - 2 - 50 - 2) * MIB, "nor is inside"
    third.end()
    inside.kill()  # and the kernel ends its child, a moment later

    def is_given_back() -> bool:
        last = Holder(hold, gpu, 0)
        last.end()
        return last.free_bytes == (256 - 2 - 100 - 2) * MIB

    until(is_given_back, "what was held inside is given back")
    for one in (outside, inside):
        one.end()


def test_shared_memory_outlives_its_maker(build: Build, gpu: dict[str, str]) -> None:
    maker = Holder(build("simgpu_hold"), gpu, 64 * MIB, "export")
    path = f"/proc/{maker.process.pid}/fd/{maker.said[2]}"
    user = Holder(build("simgpu_import"), gpu, path, 64 * MIB)
    assert user.said == ["imported"]
    before = Holder(build("simgpu_hold"), gpu, 0)
    assert before.free_bytes == (256 - 3 * 2 - 64) * MIB
    maker.kill()
    after = Holder(build("simgpu_hold"), gpu, 0)
    assert after.free_bytes == (256 - 3 * 2 - 64) * MIB
    user.end()
    last = Holder(build("simgpu_hold"), gpu, 0)
    assert last.free_bytes == (256 - 3 * 2) * MIB
    for one in (maker, before, after, last):
        one.end()


def test_processes_share_one_gpus_time(build: Build, gpu: dict[str, str]) -> None:
    both = [Holder(build("simgpu_spin"), gpu, 150) for _ in range(2)]
    for one in both:
        assert one.said == ["ready"]
        assert one.process.stdin
        one.process.stdin.write("\n")
        one.process.stdin.flush()
    times = [
        tuple(map(float, one.process.communicate(timeout=DEADLINE_S)[0].split())) for one in both
    ]
    starts, ends = zip(*times, strict=True)
    assert max(ends) - min(starts) >= 0.299


def test_a_kernel_that_spins_stops_nobody_else(build: Build, gpu: dict[str, str]) -> None:
    spinning = Holder(build("simgpu_spinning"), gpu)
    assert spinning.said == ["spinning"]
    other = Holder(build("simgpu_spin"), gpu, 30)
    assert len(other.process.communicate("\n", timeout=DEADLINE_S)[0].split()) == 2
    assert spinning.process.communicate("\n", timeout=DEADLINE_S)[0] == "ok\n"
    assert spinning.process.returncode == 0


@pytest.mark.parametrize("how", ["host", "device", "values"])
@pytest.mark.parametrize("ahead", [1, 10])
def test_processes_compute_together(
    how: str, ahead: int, build: Build, gpu: dict[str, str], tmp_path: Path
) -> None:
    program = build("collective")
    ranks = 3
    together = [
        Holder(program, gpu, how, tmp_path / "board", rank, ranks, 200, ahead, MIB)
        for rank in range(ranks)
    ]
    for one in together:
        assert one.said == ["ready"]
        assert one.process.communicate(timeout=DEADLINE_S)[0] == "done\n"


def test_nothing_is_left_of_processes_killed_in_the_middle(
    build: Build, gpu: dict[str, str]
) -> None:
    hold = build("simgpu_hold")
    for _ in range(3):
        churning = [Holder(build("simgpu_churn"), gpu) for _ in range(3)]
        for one in churning:
            assert one.said == ["on"]
            assert one.process.stdout
            one.process.stdout.readline()
        for one in churning:
            one.kill()
        left = Holder(hold, gpu, 0)
        assert left.free_bytes == 254 * MIB
        for one in (*churning, left):
            one.end()


def test_a_process_ends_while_its_threads_are_in_calls(build: Build, gpu: dict[str, str]) -> None:
    program = build("simgpu_exit_busy")
    for _ in range(ENDS):
        ended = subprocess.run([program], env=gpu, capture_output=True, timeout=DEADLINE_S)
        assert ended.returncode == 0, ended.stderr
    last = Holder(build("simgpu_hold"), gpu, 0)
    assert last.free_bytes == 254 * MIB
    last.end()
