"""Rows of processes that are no tenants: who is starting, and who is outside."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moiety.agent.control.other_rows import outside_rows, workload_rows
from moiety.agent.control.records import Record
from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.monitor.process_finder import Found
from moiety.devices.cgroups import CgroupPlacement
from moiety.devices.interface import GpuProcess
from moiety.devices.process_identity import Origin
from moiety.model.share import Share

MIB = 1 << 20
RECORD = Record("w1", 7, 40, 1, "train.py", [], "/", share=Share(gpu=0.5), user="ann")


def workload(record: Record = RECORD, root_pidfd: int = 5) -> RunningWorkload:
    socket: Any = None
    return RunningWorkload(record, "/f", socket, root_pidfd)


def test_a_workload_is_starting_until_it_has_a_tenant_and_off_gpu_between_two() -> None:
    shell = workload()
    (row,) = workload_rows([shell])
    assert (row.tenant, row.pid, row.workload, row.user) == (0, 40, "w1", "ann")
    assert (row.program, row.state, row.gpu, row.share.gpu) == ("train.py", "starting", None, 0.5)
    shell.joined(3)
    assert workload_rows([shell]) == []
    shell.clients.discard(3)
    assert [each.state for each in workload_rows([shell])] == ["off-gpu"]


def test_a_name_and_the_effective_share_are_shown_and_the_dead_are_not() -> None:
    named = workload(msgspec.structs.replace(RECORD, name="chat"))
    (row,) = workload_rows([named], lambda _: Share(gpu=0.25))
    assert (row.program, row.share.gpu) == ("chat", 0.25)
    assert workload_rows([workload(root_pidfd=-1)]) == []


def origin(pid: int) -> Origin:
    return Origin(pid, 1, 7, "ann", "python", CgroupPlacement(), pid)


@pytest.mark.parametrize(("used", "why"), [(5 * MIB, ""), (None, "does not say how much")])
def test_who_uses_a_gpu_outside_has_a_row_for_each(used: int | None, why: str) -> None:
    seen = [GpuProcess(40, used), GpuProcess(41, 1), GpuProcess(42, 1)]
    found: Found = {0: seen, 1: [GpuProcess(40, used)]}, {40: origin(40), 41: origin(41)}
    rows, unseen = outside_rows(found, {41}.__contains__)
    assert unseen == ""
    assert [(r.pid, r.gpu, r.state, r.tenant) for r in rows] == [
        (40, 0, "outside", 0),
        (40, 1, "outside", 0),
    ]
    assert (rows[0].user, rows[0].program, rows[0].resident_bytes) == ("ann", "python", used or 0)
    assert why in rows[0].reason
    assert bool(why) == bool(rows[0].reason)


def test_a_name_is_safe_on_the_terminal_of_another_user() -> None:
    named = msgspec.structs.replace(RECORD, name="a\x1b]0;b\n")
    assert [row.program for row in workload_rows([workload(named)])] == ["a?]0;b?"]
    process = Origin(40, 1, 7, "ann", "a\x1bb", CgroupPlacement(), 40)
    found: Found = {0: [GpuProcess(40, 1)]}, {40: process}
    rows, _ = outside_rows(found, lambda _: False)
    assert [row.program for row in rows] == ["a?b"]


def test_what_nvml_does_not_say_is_named() -> None:
    found: Any = {0: [GpuProcess(40, 1)], 1: None, 3: None}, {40: origin(40)}
    rows, unseen = outside_rows(found, lambda _: False)
    assert (len(rows), unseen) == (1, "NVML does not say which programs use GPU 1, 3")
    assert outside_rows(({}, {}), lambda _: False) == (
        [],
        "NVML does not say which programs use the GPUs",
    )
