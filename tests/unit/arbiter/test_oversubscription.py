"""Managed memory beyond the GPU: what fits counts in a turn, the driver pages the rest."""

from __future__ import annotations

import dataclasses

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Mode, Share
from tests.support.simulated_node import handle

MIB = 1 << 20
GPU = 100 * MIB
LIMIT = 150 * MIB
SHARE = Share(mode=Mode.MANAGED, memory_limit_part=1.5)
PIECE = 30 * MIB


def make(*, arena: int = 1 << 30) -> Arbiter:
    settings = Settings(arena_bytes=arena, link_bytes_per_s=100.0 * MIB)
    return Arbiter([GpuSpec(0, GPU, GPU)], settings)


def join(arbiter: Arbiter, number: int, share: Share = SHARE) -> None:
    handle(arbiter, 0.0, ev.Hello(number, share=share))
    limit = share.limit_bytes(GPU)
    told = handle(arbiter, 0.0, ev.Attach(number, 0, 1, 0, limit))
    assert do.Admitted(number, 0, 1) in told


def ask(arbiter: Arbiter, number: int, serial: int, size: int, **more: bool) -> do.Instruction:
    """Ask for memory and return the answer, which comes at once."""
    more = {"managed": True} | more
    told = handle(arbiter, 0.0, ev.AllocRequest(number, 0, serial, size, **more))
    arbiter.check()
    return next(each for each in told if isinstance(each, do.Admitted | do.Refused))


def grow(arbiter: Arbiter, number: int, pieces: int = 5) -> None:
    for serial in range(2, 2 + pieces):
        assert ask(arbiter, number, serial, PIECE) == do.Admitted(number, 0, serial)


def on(arbiter: Arbiter, number: int) -> tuple[int, int]:
    """Allocated and resident bytes."""
    view = next(t for t in arbiter.tenants() if t.tenant == number).gpus[0]
    return view.allocated_bytes, view.resident_bytes


def give_back(arbiter: Arbiter, now_s: float, holder: int) -> list[do.Instruction]:
    epoch = next(t.turns for t in arbiter.tenants() if t.tenant == holder)
    told = handle(arbiter, now_s, ev.Resident(holder, 0, 0))
    return told + handle(arbiter, now_s, ev.Drained(holder, epoch))


def test_a_program_has_more_than_its_gpu_and_no_more_than_its_limit() -> None:
    arbiter = make()
    join(arbiter, 1)
    grow(arbiter, 1)
    assert on(arbiter, 1) == (LIMIT, GPU)
    no = ask(arbiter, 1, 9, MIB)
    assert isinstance(no, do.Refused)
    assert no.code == "limit"
    assert "150 MiB" in no.text
    (gpu,) = arbiter.gpus()
    assert (gpu.allocated_bytes, gpu.resident_bytes, gpu.free_bytes) == (LIMIT, GPU, 0)


def test_two_that_exceed_the_gpu_each_take_turns() -> None:
    arbiter = make()
    for number in (1, 2):
        join(arbiter, number)
    grow(arbiter, 1)
    told = handle(arbiter, 0.1, ev.AllocRequest(2, 0, 2, PIECE, managed=True))
    assert not any(isinstance(each, do.Admitted) for each in told)
    assert do.Revoke(1, 1) in told
    told = give_back(arbiter, 0.1, 1)
    assert do.Admitted(2, 0, 2) in told
    for serial in range(3, 7):
        assert ask(arbiter, 2, serial, PIECE) == do.Admitted(2, 0, serial)
    assert on(arbiter, 1) == (LIMIT, 0)
    assert on(arbiter, 2) == (LIMIT, GPU)
    told = handle(arbiter, 200.0, ev.LeaseRequest(1))
    assert any(isinstance(each, do.Revoke) and each.tenant == 2 for each in told)
    told = give_back(arbiter, 200.0, 2)
    assert sum(each.bytes for each in told if isinstance(each, do.RestoreBudget)) == GPU
    told = handle(arbiter, 200.0, ev.Restored(1))
    assert any(isinstance(each, do.Grant) and each.tenant == 1 for each in told)
    assert on(arbiter, 1) == (LIMIT, GPU)
    arbiter.check()


def test_what_others_were_promised_stays_and_the_rest_is_its_own() -> None:
    arbiter = make()
    join(arbiter, 1)
    grow(arbiter, 1)
    promised = Share(memory_bytes=40 * MIB)
    assert arbiter.refuse_share(0, promised) is None
    join(arbiter, 2, promised)
    assert ask(arbiter, 2, 2, 40 * MIB, managed=False) == do.Admitted(2, 0, 2)
    assert on(arbiter, 1) == (LIMIT, 60 * MIB)
    assert on(arbiter, 2) == (40 * MIB, 40 * MIB)
    assert {t.tenant for t in arbiter.tenants() if t.state == "holding"} == {1, 2}
    refused = arbiter.refuse_share(0, Share(memory_bytes=70 * MIB))
    assert refused is not None
    assert refused[1].memory_bytes == 60 * MIB
    handle(arbiter, 1.0, ev.Left(2))
    grown = handle(arbiter, 1.1, ev.Free(1, 0, PIECE, PIECE, managed=True))
    assert not grown
    assert on(arbiter, 1)[0] == 120 * MIB


def test_what_the_driver_does_not_page_must_fit() -> None:
    arbiter = make()
    join(arbiter, 1)
    grow(arbiter, 1, 3)
    assert ask(arbiter, 1, 8, 50 * MIB, managed=False) == do.Admitted(1, 0, 8)
    assert on(arbiter, 1) == (140 * MIB, GPU)
    handle(arbiter, 0.2, ev.ShareSet(1, dataclasses.replace(SHARE, memory_limit_part=2.0)))
    no = ask(arbiter, 1, 9, 51 * MIB, managed=False)
    assert isinstance(no, do.Refused)
    assert no.code == "capacity"


def test_the_host_must_have_room_for_what_the_gpu_has_not() -> None:
    arbiter = make(arena=45 * MIB)
    join(arbiter, 1)
    grow(arbiter, 1, 4)
    no = ask(arbiter, 1, 9, PIECE)
    assert isinstance(no, do.Refused)
    assert "raise --arena" in no.text


@pytest.mark.parametrize("share", [Share(mode=Mode.MANAGED), Share(mode=Mode.SWAP)])
def test_without_a_limit_beyond_it_the_gpu_is_the_limit(share: Share) -> None:
    arbiter = make()
    join(arbiter, 1, share)
    grow(arbiter, 1, 3)
    assert isinstance(ask(arbiter, 1, 9, PIECE), do.Refused)
    assert on(arbiter, 1) == (90 * MIB, 90 * MIB)


def test_a_limit_that_is_lowered_leaves_what_there_is() -> None:
    arbiter = make()
    join(arbiter, 1)
    grow(arbiter, 1)
    handle(arbiter, 1.0, ev.ShareSet(1, Share()))
    assert on(arbiter, 1) == (LIMIT, GPU)
    assert isinstance(ask(arbiter, 1, 9, MIB), do.Refused)
    join(arbiter, 2)
    told = handle(arbiter, 1.1, ev.AllocRequest(2, 0, 2, PIECE, managed=True))
    assert do.Revoke(1, 1) in told
    give_back(arbiter, 1.1, 1)
    handle(arbiter, 1.2, ev.LeaseRequest(1))
    handle(arbiter, 1.3, ev.Left(2))
    told = handle(arbiter, 1.4, ev.Restored(1))
    assert any(isinstance(each, do.Grant) and each.tenant == 1 for each in told)
    handle(arbiter, 61.0, ev.Free(1, 0, 90 * MIB, 60 * MIB, managed=True))
    handle(arbiter, 61.1, ev.Tick())
    assert on(arbiter, 1)[0] == 60 * MIB
    assert isinstance(ask(arbiter, 1, 10, PIECE), do.Admitted)
    assert isinstance(ask(arbiter, 1, 11, PIECE), do.Refused)


def test_one_that_outlived_its_agent_says_what_it_has() -> None:
    arbiter = make()
    hello = ev.Hello(1, holding=True, epoch=1, resumed=True, share=SHARE)
    handle(arbiter, 0.0, hello)
    attach = ev.Attach(
        1, 0, 0, 0, LIMIT,
        allocated_bytes=LIMIT, resident_bytes=LIMIT, managed_bytes=LIMIT, exists=True,
        proven_bytes=LIMIT, proven_pinned_bytes=0,
    )  # fmt: skip
    told = handle(arbiter, 0.0, attach)
    assert do.Admitted(1, 0, 0) in told
    arbiter.check()
    assert on(arbiter, 1) == (LIMIT, GPU)


@pytest.mark.parametrize(("size", "managed"), [(LIMIT + 1, LIMIT + 1), (LIMIT, LIMIT - GPU - 1)])
def test_no_process_has_more_than_its_limit_or_unpaged_more_than_the_gpu(
    size: int, managed: int
) -> None:
    arbiter = make()
    handle(arbiter, 0.0, ev.Hello(1, resumed=True, share=SHARE))
    attach = ev.Attach(
        1,
        0,
        0,
        0,
        LIMIT,
        allocated_bytes=size,
        resident_bytes=0,
        managed_bytes=managed,
        exists=True,
    )
    (told,) = handle(arbiter, 0.0, attach)
    assert isinstance(told, do.Refused)
    assert "it says that it has" in told.text
