"""Faults among real processes on a simulated GPU: who was not hit ends well, and nothing is left.

The count of faults is printed; `make soak` has many more of them.
"""

from __future__ import annotations

import contextlib
import resource
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.model import errors
from moiety.model.errors import MoietyError
from moiety.testing.waiting import DEADLINE_S
from tests.support.chaos import lie
from tests.support.fault_injection import ENDLESS, Ordeal, cases, kill_agent
from tests.support.wire_fakes import Shim

CASES = 8
RESTARTS = 3
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def ordeal(tmp_path: Path, native: Path, programs: Path) -> Iterator[Ordeal]:
    with Ordeal(tmp_path, native, programs / "worker") as made:
        yield made


def test_a_fault_at_any_step(ordeal: Ordeal) -> None:
    for _, case in zip(range(CASES), cases(Random(2)), strict=False):
        ordeal.suffer(case)
    print(f"{ordeal.struck} faults")
    assert ordeal.struck >= CASES // 2


@pytest.mark.parametrize("times", [RESTARTS, pytest.param(100, marks=pytest.mark.soak)])
def test_an_agent_that_is_killed_again_and_again(ordeal: Ordeal, times: int) -> None:
    workers = [ordeal.start_worker(ENDLESS), ordeal.start_worker(ENDLESS)]
    ordeal.until(lambda: ordeal.tenants() == 2, "both are there")
    for _ in range(times):
        kill_agent(ordeal)
        ordeal.start_agent()
        ordeal.until(lambda: ordeal.tenants() == 2, "both are back")
        ordeal.until(lambda: ordeal.turns() > 2, "they take turns")
    ordeal.finish(workers)


def test_liars_and_a_crowd_beside_programs(ordeal: Ordeal) -> None:
    workers = [ordeal.start_worker(ENDLESS), ordeal.start_worker(ENDLESS)]
    ordeal.until(lambda: ordeal.tenants() == 2, "both are there")
    dice = Random(5)
    with Call(ordeal.directory) as call:
        wanted = protocol.CreateWorkload("liar", ["liar"], "/")
        path = call.ask(wanted, protocol.Created).socket
    with contextlib.ExitStack() as crowd:
        for _ in range(20):  # who says anything
            liar = Shim(path)
            crowd.callback(liar.close)
            with contextlib.suppress(OSError, AssertionError):
                liar.hello("liar")
                liar.sock.setblocking(False)
                for _ in range(200):
                    liar.send_raw(lie(dice, [bytes(16)]))
        for _ in range(1000):  # who says nothing
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            crowd.callback(sock.close)
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):  # so many are let in, and no more
                sock.connect(path)
        turns = ordeal.turns()
        ordeal.until(lambda: ordeal.turns() > turns, "programs go on taking turns")
    ordeal.finish(workers)


def test_a_full_disk_costs_lines_not_programs(ordeal: Ordeal) -> None:
    for name in ("agent.log", "events.jsonl"):
        with (ordeal.directory.path / name).open("a") as file:
            file.write("x" * 8192 + "\n")
    resource.prlimit(ordeal.agent.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    workers = [ordeal.start_worker(), ordeal.start_worker()]
    ordeal.finish(workers)
    assert "Left" in ordeal.reasons()


def test_settings_on_a_full_disk_are_refused_with_the_reason(ordeal: Ordeal) -> None:
    resource.prlimit(ordeal.agent.pid, resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
    with Call(ordeal.directory) as call, pytest.raises(MoietyError, match=r"/\S+: File too large"):
        call.ask(protocol.SetAgent({"turn_min_s": "5ms"}), protocol.Done)
    resource.prlimit(ordeal.agent.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    with Call(ordeal.directory) as call:
        call.ask(protocol.SetAgent({"turn_min_s": "5ms"}), protocol.Done)


def test_programs_outlive_the_folder_of_their_sockets(ordeal: Ordeal) -> None:
    workers = [ordeal.start_worker(ENDLESS), ordeal.start_worker(ENDLESS)]
    ordeal.until(lambda: ordeal.turns() > 2, "they take turns")
    shutil.rmtree(ordeal.directory.workloads)
    turns = ordeal.turns()
    ordeal.until(lambda: ordeal.turns() > turns, "they go on")
    ordeal.finish(workers)
    ordeal.finish([ordeal.start_worker()])


def test_programs_outlive_the_whole_directory_of_their_agent(ordeal: Ordeal) -> None:
    workers = [ordeal.start_worker(ENDLESS), ordeal.start_worker(ENDLESS)]
    ordeal.until(lambda: ordeal.turns() > 2, "they take turns")
    for each in ordeal.directory.path.iterdir():
        if each.name != "gpu":  # that is the simulated GPU itself
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    late = ordeal.second_agent()
    assert late.returncode == errors.GpuOwned.exit_code
    assert f"belongs to another agent: pid {ordeal.agent.pid}" in late.stderr
    for worker in workers:
        worker.send_signal(signal.SIGUSR1)
    for worker in workers:  # each of them needs turns to come to its end
        out, said = worker.communicate(timeout=DEADLINE_S)
        assert (worker.returncode, out) == (0, "0 words wrong\n"), said


FAULT = (
    "import ctypes, sys; driver = ctypes.CDLL(sys.argv[1]); assert not driver.cuInit(0);"
    "assert not driver.simgpu_fault(*map(int, sys.argv[2:]))"
)


def strike(ordeal: Ordeal, native: Path, gpu: int, xid: int, pid: int) -> None:
    """A GPU reports an error."""
    driver = str(native / "simgpu" / "libcuda.so.1")
    assert ordeal.call([sys.executable, "-c", FAULT, driver, str(gpu), str(xid), str(pid)]) == 0


@pytest.mark.parametrize(("xid", "result"), [(31, 700), (43, 719), (94, 214)])
def test_an_error_of_the_gpu_ends_whose_it_is_and_nobody_else(
    ordeal: Ordeal, native: Path, xid: int, result: int
) -> None:
    hit, other = ordeal.start_worker(ENDLESS), ordeal.start_worker(ENDLESS)
    ordeal.until(lambda: ordeal.turns() > 2, "they take turns")
    strike(ordeal, native, 0, xid, hit.pid)
    _, said = hit.communicate(timeout=DEADLINE_S)
    assert hit.returncode == 1
    assert f"failed with error {result}" in said
    ordeal.finish([other])
    ordeal.until(lambda: "GpuError" in ordeal.reasons(), "the administrator is told")
    ordeal.finish([ordeal.start_worker()])


def test_memory_that_lost_its_content_ends_all_there_and_the_next_begin(
    ordeal: Ordeal, native: Path
) -> None:
    workers = [ordeal.start_worker(ENDLESS), ordeal.start_worker(ENDLESS)]
    ordeal.until(lambda: ordeal.turns() > 2, "they take turns")
    strike(ordeal, native, 0, 95, 0)
    for worker in workers:
        _, said = worker.communicate(timeout=DEADLINE_S)
        assert worker.returncode == 1
        assert "failed with error 214" in said
    ordeal.until(lambda: "GpuError" in ordeal.reasons(), "the administrator is told")
    ordeal.until(lambda: ordeal.tenants() == 0, "nobody is left")
    ordeal.finish([ordeal.start_worker()])


def test_a_gpu_off_the_bus_ends_all_there_and_lets_nobody_in(ordeal: Ordeal, native: Path) -> None:
    workers = [ordeal.start_worker(ENDLESS), ordeal.start_worker(ENDLESS)]
    ordeal.until(lambda: ordeal.turns() > 2, "they take turns")
    strike(ordeal, native, 0, 79, 0)
    for worker in workers:
        _, said = worker.communicate(timeout=DEADLINE_S)
        assert worker.returncode == 1
        assert "failed with error" in said
    ordeal.until(lambda: "GpuError" in ordeal.reasons(), "the administrator is told")
    late = ordeal.start_worker()
    _, said = late.communicate(timeout=DEADLINE_S)
    assert late.returncode == 1
    assert "has fallen off the bus (XID 79)" in said
    ordeal.until(lambda: ordeal.tenants() == 0, "nobody is left")
