"""Memory that did not change leaves without being copied, and every byte is right afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Node
from moiety.wire.layout import EvictedFlag, FreeFlag, Type
from moiety.wire.messages import ArenaMessage, FreeMessage
from tests.support.clean import MIB, Program, Start, starting


@pytest.fixture
def start(make_node: Callable[[str], Node], native: Path, tmp_path: Path) -> Iterator[Start]:
    with starting(make_node, native, tmp_path) as begin:
        yield begin


def test_only_chunks_that_changed_are_copied_out(start: Start) -> None:
    program = start(24)
    assert program.turn() == 2 * 24 * MIB, "the first time, all of it goes"
    assert program.turn() == 24 * MIB, "nothing changed: it comes back, but was not copied out"
    program.tell(f"write 0 {5 * MIB}")
    assert program.turn() == 24 * MIB + 2 * MIB
    assert program.turn() == 24 * MIB
    assert program.tell("check") == "right"
    assert program.end() == ""


def test_switched_off_everything_is_copied(start: Start) -> None:
    program = start(8, clean="off")
    assert [program.turn(), program.turn()] == [2 * 8 * MIB] * 2
    assert program.tell("check") == "right"
    program.end()


def test_without_its_kernels_everything_is_copied_and_that_is_said_once(
    start: Start, native: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "driver"
    shutil.copytree(native / "simgpu", folder, ignore=lambda *_: ["kernels.elf"])
    program = start(8, simgpu=folder)
    assert [program.turn(), program.turn()] == [2 * 8 * MIB] * 2
    assert program.tell("check") == "right"
    assert program.end().count("cannot be loaded") == 1


def test_every_single_byte_that_changes_is_seen(start: Start) -> None:
    program = start(8)
    program.turn()
    for where in (0, 2 * MIB - 8, 3 * MIB + 4096, 7 * MIB + 65528):
        program.tell(f"write 0 {where}")
        assert program.turn() == 8 * MIB + 2 * MIB
        assert program.tell("check") == "right"
    program.end()


def test_clean_chunks_leave_before_those_that_must_be_copied(start: Start) -> None:
    program = start(8, 8)
    program.turn()
    for chunk in range(4):
        program.tell(f"write 1 {chunk * 2 * MIB + 64}")
    assert program.turn(8 * MIB) == 8 * MIB, "the four chunks of the first piece, which are clean"
    assert program.tell("check") == "right"
    program.end()


def test_a_chunk_that_always_changes_is_copied_and_still_right(start: Start) -> None:
    program = start(4)
    for turn in range(20):
        program.tell(f"write 0 {turn * 8}")
        program.tell(f"write 0 {2 * MIB + turn * 8}")
        program.turn()
        assert program.tell("check") == "right"
    program.end()


def test_freed_memory_and_new_memory_keep_their_bytes(start: Start) -> None:
    program = start(8, 8)
    for turn in range(6):
        program.turn()
        program.tell(f"free {turn}")
        program.tell("new 8")
        program.turn()
        assert program.tell("check") == "right"
    program.end()


def test_a_copy_out_that_fails_leaves_clean_and_changed_chunks_right(start: Start) -> None:
    program = start(16)
    program.turn()
    for chunk in (1, 3, 5):
        program.tell(f"write 0 {chunk * 2 * MIB}")
    program.agent.revoke()
    program.tell("fail 1")
    left, last = program.evict()
    assert last.flags & EvictedFlag.FAILED
    assert left < 16 * MIB
    program.tell("fail 0")
    left, last = program.evict()
    assert not last.flags & EvictedFlag.FAILED
    assert last.resident_bytes == 0
    program.restore()
    program.agent.grant()
    assert program.tell("check") == "right"
    assert program.turn() == 16 * MIB
    assert program.tell("check") == "right"
    program.end()


def test_a_copy_that_host_memory_is_needed_for_is_given_up_and_nothing_is_lost(
    start: Start,
) -> None:
    """A large clean chunk stays, a small one leaves into the memory of the large one's copy."""
    program = start(32, chunk_bytes=64 * MIB)
    program.tell("limit")  # no host memory at all: the eviction fails, and nothing is lost
    program.agent.revoke()
    left, last = program.evict()
    assert (left, last.resident_bytes) == (0, 32 * MIB)
    assert last.flags & EvictedFlag.FAILED
    program.tell("unlimit")
    program.evict()
    program.restore()
    program.agent.grant()
    for _ in range(6):
        program.tell("new 32")
    program.turn(6 * 32 * MIB)
    program.tell("new 2")
    program.tell("limit")
    program.agent.revoke()
    before = program.copied()
    left, last = program.evict(2 * MIB)
    assert (left, program.copied() - before) == (2 * MIB, 2 * MIB)
    program.evict()  # some of it has no place in host memory now, and stays
    program.tell("unlimit")
    left, last = program.evict()
    assert last.resident_bytes == 0
    program.restore()
    program.agent.grant()
    assert program.tell("check") == "right"
    program.end()


@pytest.mark.parametrize("resident", [False, True])
def test_a_damaged_host_copy_is_found_and_never_used(start: Start, resident: bool) -> None:
    program = start(4, 2)
    program.turn()
    if resident:
        assert program.tell("damage 1") == "damaged 1"
    program.agent.revoke()
    program.evict()
    if not resident:
        assert program.tell("damage 1") == "damaged 1"
    program.restore()
    freed = [m for m in program.agent.heard if isinstance(m, FreeMessage)]
    lost = [(m.bytes, m.resident_bytes, m.flags) for m in freed]
    assert lost == [(2 * MIB, 0, FreeFlag.DAMAGED)], "it is not charged any more"
    program.agent.grant()
    assert program.tell("check").startswith("error")
    assert program.tell("check").startswith("error"), "for good"
    told = program.end()
    assert told.count("were damaged in host memory") == 1


def test_a_changed_chunk_with_a_damaged_copy_is_no_harm(start: Start) -> None:
    program = start(4)
    program.turn()
    program.tell(f"write 0 {4096}")
    assert program.tell("damage 0") == "damaged 1"
    program.turn()
    assert program.tell("check") == "right"
    assert program.end() == ""


def lend(program: Program, number: int, size: int) -> None:
    """Give the program a segment of host memory."""
    fd = os.memfd_create("segment")
    os.ftruncate(fd, size)
    program.agent.send(ArenaMessage(Type.ARENA, 0, number, size), fd)
    os.close(fd)


def returned(program: Program, size: int) -> list[int]:
    """The segments that the program returns when it is asked for this many bytes."""
    program.agent.send(ArenaMessage(Type.ARENA_BACK, 0, 0, size))
    numbers: list[int] = []
    while True:
        message = program.agent.until(Type.ARENA_BACK)
        assert isinstance(message, ArenaMessage)
        if not message.segment:
            return numbers
        numbers.append(message.segment)


def test_the_agent_gets_segments_with_spare_copies_back(start: Start) -> None:
    program = start(16, 8)
    lend(program, 1, 16 * MIB)
    lend(program, 2, 16 * MIB)
    program.turn()
    assert program.turn() == 24 * MIB, "all is clean"
    program.agent.revoke()
    program.evict(4 * MIB)
    assert len(returned(program, 32 * MIB)) == 1, "the other one holds what has been evicted"
    program.restore()
    program.agent.grant()
    assert program.tell("check") == "right"
    program.turn()
    assert program.tell("check") == "right"
    assert len(returned(program, 32 * MIB)) == 1
    program.turn()
    assert program.tell("check") == "right"
    program.end()


def test_a_segment_that_is_larger_than_what_is_wanted_keeps_its_copies(start: Start) -> None:
    program = start(8)
    lend(program, 1, 16 * MIB)
    program.turn()
    assert returned(program, 8 * MIB) == []
    assert program.turn() == 8 * MIB, "still clean"
    program.end()


def test_verifying_copies_and_compares_what_is_clean(start: Start) -> None:
    program = start(8, clean="verify")
    assert [program.turn(), program.turn()] == [2 * 8 * MIB] * 2
    assert program.tell("check") == "right"
    assert program.end() == ""


def test_verifying_tells_of_a_copy_that_differs(start: Start) -> None:
    program = start(2, clean="verify")
    program.turn()
    assert program.tell("damage 0") == "damaged 1"
    program.turn()
    assert program.tell("check") == "right", "the new copy is used"
    assert "differs from it" in program.end()
