"""What is in host memory and how GPUs are used, as `ps`, `status` and the metrics show it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from random import Random

import pytest

from moiety.agent.arena.arena import ArenaSize
from moiety.agent.control import metrics, report
from moiety.agent.control.report import Reports, host_bytes
from moiety.agent.core.client import Client
from moiety.agent.monitor.usage_monitor import UsageMonitor
from moiety.arbiter.settings import Settings
from moiety.arbiter.snapshots import TenantGpuView, TenantView
from moiety.devices.interface import Usage
from moiety.enforcement.policy import Policy
from moiety.wire.codec import Counters
from moiety.wire.layout import HelloFlag
from tests.support.liar import Liar
from tests.support.reports import reports_of
from tests.support.virtual_agent import CAPACITY, USER, World

GPU = TenantGpuView(allocated_bytes=100, resident_bytes=20, residue_bytes=0, limit_bytes=200)


def view(*gpus: TenantGpuView) -> TenantView:
    return TenantView(1, "idle", None, "", 0, 0, gpus=dict(enumerate(gpus)))


def counted(amount: int) -> Counters:
    return Counters(host_bytes=amount, host_counted=1)


def test_zeros_that_left_a_gpu_are_not_on_the_host() -> None:
    assert host_bytes(view(GPU), counted(30)) == {0: 30}
    assert host_bytes(view(GPU), counted(0)) == {0: 0}
    assert host_bytes(view(), counted(0)) == {}


def test_no_more_is_on_the_host_than_has_left() -> None:
    assert host_bytes(view(GPU), counted(1000)) == {0: 80}
    resident = replace(GPU, resident_bytes=100)
    assert host_bytes(view(resident), counted(1000)) == {0: 0}, "copies of resident bytes"


def test_a_client_that_does_not_count_has_all_of_it_there() -> None:
    assert host_bytes(view(GPU), Counters()) == {0: 80}


def test_of_several_gpus_each_has_its_part() -> None:
    other = replace(GPU, resident_bytes=80)
    assert host_bytes(view(GPU, other), counted(50)) == {0: 40, 1: 10}


def test_managed_bytes_that_left_are_all_counted() -> None:
    managed = replace(GPU, managed_bytes=60)
    assert host_bytes(view(managed), counted(0)) == {0: 60}
    assert host_bytes(view(managed), counted(5)) == {0: 65}


def test_a_gpu_that_nvml_does_not_know_hides_no_other() -> None:
    def usage(index: int) -> Usage:
        if index == 0:
            raise OSError("GPU is lost")
        return Usage(index, None, {})

    with World(Random(1), Settings(arena_bytes=100), gpus=3) as world:
        reports = reports_of(world.start_agent())
        world.devices.usage = usage  # type: ignore[method-assign]
        usages = asyncio.run(reports.usages())
        assert usages == {1: Usage(1, None, {}), 2: Usage(2, None, {})}
        assert [row.used_bytes for row in reports.gpu_rows(usages)] == [None, 1, 2]


def test_while_nvml_hangs_the_rest_is_told_and_it_is_asked_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report, "SENSORS_S", 0.0)
    answers, asked = threading.Event(), []

    def usage(index: int) -> Usage:
        asked.append(index)
        answers.wait()
        return Usage(index, None, {})

    async def ask(reports: Reports) -> None:
        try:
            for _ in range(3):
                assert await reports.usages() == {}
            assert len(asked) <= 1
        finally:
            answers.set()
        assert reports._reading
        await reports._reading
        monkeypatch.setattr(report, "SENSORS_S", 60.0)
        assert await reports.usages() == {0: Usage(0, None, {})}
        assert asked == [0, 0]

    with World(Random(1), Settings(arena_bytes=100)) as world:
        reports = reports_of(world.start_agent())
        world.devices.usage = usage  # type: ignore[method-assign]
        asyncio.run(ask(reports))


def test_a_program_that_worked_since_the_monitor_looked_is_not_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes = 0
    monkeypatch.setattr(Client, "calls", lambda _: (passes, False))
    with World(Random(1), Settings(arena_bytes=100)) as world:
        agent = world.start_agent()
        monitor = UsageMonitor(
            agent.runtime,
            agent.loop,
            agent.devices,
            Policy(),
            probe=agent.probe,
            gpus=agent.gpus,
            clients=agent.clients.by_number,
            arbiter=agent.arbiter,
            recovery=agent.recovery,
            timeline=agent.timeline,
            journal=agent.journal,
        )
        reports = reports_of(agent, monitor=monitor)
        Liar(world).attach()
        monitor.looked(({}, {}))
        world.wait(5.0)
        passes += 1
        (row,) = reports.process_rows()
        assert row.idle_s == 0.0
        world.wait(5.0)
        (row,) = reports.process_rows()
        assert row.idle_s == pytest.approx(5.0)


def test_what_of_the_arena_is_used_is_what_users_have_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Client, "counters", lambda _: counted(1))
    with World(Random(1), Settings(arena_bytes=100)) as world:
        agent = world.start_agent()
        agent.add_arena(ArenaSize(100, 0, 1, 0))
        reports = reports_of(agent)
        reports.arena = agent.arena
        Liar(world, HelloFlag.RESUMED).attach(allocated=5, resident=2)
        (row,) = reports.process_rows()
        assert (row.allocated_bytes - row.resident_bytes, row.host_bytes) == (3, 1), "zeros"
        seen = metrics.values(metrics.snapshot(reports, {}, 0.0, 0.0))
        (_, used), (_, of_user) = (
            *seen["moiety_arena_used_bytes"],
            *seen["moiety_arena_user_bytes"],
        )
        assert (used, of_user) == (1, 1)
        assert agent.arena
        agent.arena.stop()


def test_a_stopped_process_that_outlived_the_last_agent_is_shown_with_its_memory() -> None:
    with World(Random(1), Settings(arena_bytes=100), gpus=2) as world:
        world.start_agent()
        process = world.begin()
        process.attach(1, 1, CAPACITY)
        process.allocate(1, [4])
        world.settle()
        world.stop(process)
        world.kill_agent()
        agent = world.start_agent()
        reports = reports_of(agent)
        assert reports.process_rows() == []
        world.wait(2.0)
        assert agent.recovery.is_settled
        (row,) = reports.process_rows()
        (view,) = [view for view in agent.arbiter.gpus() if view.gpu == 1]
        assert (row.pid, row.gpu, row.workload) == (process.number, 1, f"w{process.number}")
        assert (row.state, row.uid) == ("stopped", USER)
        assert row.resident_bytes == view.resident_bytes >= 4
        assert row.residue_bytes == view.residue_bytes
        world.go_on(process)
        (row,) = reports.process_rows()
        assert row.state == "unconnected"
        world.until_rest(5.0)
        (row,) = reports.process_rows()
        assert (row.allocated_bytes, row.reason) == (4, "")
