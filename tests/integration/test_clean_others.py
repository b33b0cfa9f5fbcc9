"""Clean copies where the kernel fails, a context goes, or others may write the memory."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.testing.node import Node
from moiety.wire.layout import EvictedFlag, Type
from moiety.wire.messages import ShareMessage
from tests.support.clean import GPU, MIB, Program, Start, starting
from tests.support.fault_injection import ENDLESS, Case, Ordeal
from tests.support.native import compile_c

ROOT = Path(__file__).resolve().parents[2]
HASH = "moiety_hash"
ZEROS = "moiety_find_zeros"


@pytest.fixture
def start(make_node: Callable[[str], Node], native: Path, tmp_path: Path) -> Iterator[Start]:
    with starting(make_node, native, tmp_path) as begin:
        yield begin


@pytest.mark.parametrize("when", ["as it leaves", "as it comes"])
def test_a_hash_kernel_that_does_not_start_has_everything_copied_and_says_so_once(
    start: Start, when: str
) -> None:
    program = start(8)
    program.turn()
    if when == "as it leaves":
        program.tell(f"refuse {HASH} 1")
        assert [program.turn(), program.turn()] == [2 * 8 * MIB] * 2
    else:
        program.agent.revoke()
        program.evict()
        program.tell(f"refuse {HASH} 1")
        program.restore()
        program.agent.grant()
        assert [program.turn(), program.turn()] == [2 * 8 * MIB] * 2
    assert program.tell("check") == "right"
    assert program.end().count("did not start") == 1


def test_a_zero_kernel_that_does_not_start_has_everything_copied(start: Start) -> None:
    program = start(8)
    program.turn()
    program.tell(f"refuse {ZEROS} 1")
    assert [program.turn(), program.turn()] == [2 * 8 * MIB] * 2
    assert program.tell("check") == "right"
    assert program.end().count("did not start") == 1


def test_a_hash_kernel_that_computes_something_else_is_found_before_its_answers_count(
    start: Start, native: Path, tmp_path: Path
) -> None:
    sources = ROOT / "native" / "simgpu" / "kernels"
    wrong = tmp_path / "scan.c"
    text = (sources / "scan.c").read_text()
    sums = "uint64_t other = reduce((u128)sums[h][thread + apart] * *key);"
    assert sums in text
    wrong.write_text(text.replace(sums, "uint64_t other = sums[h][thread + apart];"))
    folder = tmp_path / "driver"
    shutil.copytree(native / "simgpu", folder, ignore=lambda *_: ["kernels.elf"])
    others = [each for each in sources.glob("*.c") if each.name != wrong.name]
    kernels = folder / "kernels.elf"
    compile_c([wrong, *others], kernels, shared=True, flags=[f"-I{ROOT / 'native'}"])
    program = start(8, simgpu=folder)
    assert [program.turn(), program.turn()] == [2 * 8 * MIB] * 2
    assert program.tell("check") == "right"
    assert program.end().count("does not compute what it should") == 1


def test_copies_outlive_the_context_in_which_they_were_hashed(start: Start) -> None:
    program = start(4)
    program.tell("context")
    program.tell("new 8")
    program.turn()
    assert program.turn() == 12 * MIB, "all is clean"
    program.tell("lose")
    assert program.turn() == 8 * MIB, "the kernels are loaded anew, with the same keys"
    program.tell("write 1 4096")
    assert program.turn() == 8 * MIB + 2 * MIB
    assert program.tell("check") == "right"
    assert program.end() == ""


def test_memory_of_a_broken_context_neither_hangs_nor_comes_back_wrong(start: Start) -> None:
    program = start(8)
    program.turn()
    program.tell("break")
    program.agent.revoke()
    program.evict()
    program.restore()
    program.agent.grant()
    assert program.tell("check").startswith("error")
    program.agent.revoke()
    program.evict()
    program.restore()
    program.agent.grant()
    assert program.tell("check").startswith("error")
    program.end()


def closed_by_all(program: Program) -> None:
    """Tell the program that no process has its exported memory open any more."""
    notes = [m for m in program.agent.heard if isinstance(m, ShareMessage) and m.serial]
    program.agent.send(ShareMessage(Type.UNSHARE, 0, notes[-1].token, gpu=0))
    program.agent.settle()


def test_memory_that_was_exported_is_copied_each_time(start: Start) -> None:
    program = start(4, 8)
    program.turn()
    assert program.tell("export 0") == "done"
    program.agent.revoke()
    left, last = program.evict()
    assert (left, last.resident_bytes) == (8 * MIB, 4 * MIB), "others have it open"
    program.restore()
    program.agent.grant()
    closed_by_all(program)
    for _ in range(3):
        assert program.turn() == 2 * 4 * MIB + 8 * MIB
    assert program.tell("check") == "right"
    program.end()


def test_memory_that_was_pinned_for_a_moment_is_copied_each_time(start: Start) -> None:
    program = start(4, 8)
    program.turn()
    assert program.turn() == 12 * MIB, "all is clean"
    program.tell("handle 0")
    for _ in range(3):
        assert program.turn() == 2 * 4 * MIB + 8 * MIB
    assert program.tell("check") == "right"
    program.end()


def test_a_program_with_a_multicast_object_has_nothing_clean(start: Start) -> None:
    """An agent orders no eviction of such a program; this one does it all the same."""
    program = start(8, gpu=GPU.replace("A100-80", "H100"))
    program.tell("bind 4")
    assert [program.turn(), program.turn(), program.turn()] == [2 * 12 * MIB] * 3
    assert program.tell("check") == "right"
    program.end()


def test_what_another_gpu_writes_is_seen(start: Start) -> None:
    program = start(8, gpu="2x" + GPU)
    program.turn()
    for where in (0, 2 * MIB + 4096, 8 * MIB - 8):
        assert program.tell(f"peer 0 {where}") == "done"
        assert program.turn() == 8 * MIB + 2 * MIB
        assert program.turn() == 8 * MIB
        assert program.tell("check") == "right"
    program.end()


@pytest.mark.parametrize("fails", ["copy", "scan"])
def test_verifying_goes_on_after_a_failure(start: Start, fails: str) -> None:
    program = start(8, clean="verify")
    program.turn()
    program.agent.revoke()
    program.tell("fail 1" if fails == "copy" else f"refuse {ZEROS} 1")
    _, last = program.evict()
    assert bool(last.flags & EvictedFlag.FAILED) == (fails == "copy")
    program.tell("fail 0")
    program.evict()
    program.restore()
    program.agent.grant()
    program.tell("write 0 4096")
    assert program.turn() == 2 * 8 * MIB
    assert program.tell("check") == "right"
    told = program.end()
    assert told.count("did not start") == (fails == "scan")
    assert "differs" not in told


@pytest.fixture
def ordeal(
    tmp_path: Path,
    native: Path,
    build: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ordeal]:
    """Workers that change an eighth of their memory."""
    monkeypatch.setitem(os.environ, "MOIETY_CLEAN", "on")
    with Ordeal(tmp_path, native, build("mostly_kept")) as made:
        yield made


def zero_bytes(ordeal: Ordeal) -> int:
    """Bytes that left without being copied."""
    with Call(ordeal.directory) as call:
        return sum(row.zero_bytes for row in call.ask(protocol.Ps(), protocol.Processes).rows)


@pytest.mark.slow
def test_workers_that_keep_most_leave_without_being_copied(ordeal: Ordeal) -> None:
    workers = [ordeal.start_worker(ENDLESS), ordeal.start_worker(ENDLESS)]
    ordeal.until(lambda: zero_bytes(ordeal) > 256 * MIB, "clean chunks left often")
    ordeal.finish(workers)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", ["revoke", "drained", "evict", "evicted", "room", "restored"])
def test_a_kill_at_any_step_of_a_move_with_clean_copies_loses_nothing_of_others(
    ordeal: Ordeal, step: str
) -> None:
    """The other worker ends with every byte right, and the ledger is empty."""
    for nth in (1, 4):
        assert ordeal.suffer(Case(step, nth, "peer", signal.SIGKILL)), f"{step} never came"
