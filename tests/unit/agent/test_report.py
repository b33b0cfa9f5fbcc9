"""What of a program's memory is in host memory, as `moiety ps` and the metrics show it."""

from __future__ import annotations

from dataclasses import replace

from moiety.agent.control.report import host_bytes
from moiety.arbiter.snapshots import TenantGpuView, TenantView
from moiety.wire.codec import Counters

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
