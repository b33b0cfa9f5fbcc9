"""The shim's kernels: what their PTX computes, as simgpu's form does, and that it assembles."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.scan_kernels import BLOCKS, Page, interpret, module_text, page_of, simulate

MIB = 1 << 20
ZEROS = "moiety_find_zeros"
ONLY_ZEROS, DATA = 1, 2
CARDS = ["50", "60", "70", "75", "80", "86", "89", "90", "100", "120"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return module_text(tmp_path_factory.mktemp("ptx"))


def zeros(size: int) -> Bytes:
    """Bytes at an address that the kernels can read, with nothing but zeros."""
    made = np.zeros(size + 256, np.uint8)
    return made[-made.ctypes.data % 256 :][:size]


def verdicts(page: Page, chunk: int = 0) -> list[int]:
    return list(page.verdict[chunk])


@pytest.mark.parametrize("size", [2 * MIB, 18 * MIB])
@pytest.mark.parametrize("where", ["nowhere", "first", "middle", "last"])
def test_each_block_says_whether_its_part_holds_only_zeros(
    text: str, simgpu: Path, size: int, where: str
) -> None:
    chunk = zeros(size)
    at = {"nowhere": -1, "first": 0, "middle": size // 2 + 3 * 65536 + 12345, "last": size - 1}
    expected = [ONLY_ZEROS] * BLOCKS
    if where != "nowhere":
        chunk[at[where]] = 1
        expected[at[where] // 65536 % BLOCKS] = DATA
    page, other = page_of([chunk]), page_of([chunk])
    rounds = interpret(text, ZEROS, page, [chunk])
    assert verdicts(page) == expected
    if where in ("nowhere", "last"):
        assert rounds == size // 65536, "each round of each block passes one barrier"
    simulate(simgpu, ZEROS, other, 1)
    assert verdicts(other) == expected


def test_each_byte_of_a_round_is_looked_at(text: str, simgpu: Path) -> None:
    """One byte in each of the 4,096 lines of 16 bytes that the threads of a block read."""
    chunk = zeros(2 * MIB)
    for line in range(0, 4096, 97):
        chunk[5 * 65536 + line * 16 + line % 16] = 1
        page, other = page_of([chunk]), page_of([chunk])
        interpret(text, ZEROS, page, [chunk], blocks=[4, 5, 6])
        assert verdicts(page)[3:8] == [0, ONLY_ZEROS, DATA, ONLY_ZEROS, 0], line
        simulate(simgpu, ZEROS, other, 1)
        assert verdicts(other) == [DATA if b == 5 else ONLY_ZEROS for b in range(BLOCKS)]
        chunk[:] = 0


def test_several_chunks_have_their_own_answers(text: str, simgpu: Path) -> None:
    chunks = [zeros(2 * MIB), zeros(4 * MIB), zeros(2 * MIB)]
    chunks[1][3 * MIB] = 9
    page, other = page_of(chunks), page_of(chunks)
    interpret(text, ZEROS, page, chunks)
    simulate(simgpu, ZEROS, other, 3)
    for answers in (page, other):
        wrong = [verdicts(answers, i).count(DATA) for i in range(4)]
        assert wrong == [0, 1, 0, 0]
        assert verdicts(answers, 3) == [0] * BLOCKS, "nothing was asked about the fourth"


def test_the_time_is_that_of_the_cards_memory(simgpu: Path) -> None:
    chunk = zeros(64 * MIB)
    took = simulate(simgpu, ZEROS, page_of([chunk]), 1, per_s=10**12)
    assert took == pytest.approx(64 * MIB / 1e12 * 1e9, rel=0.01)
    chunk[::65536] = 1
    assert simulate(simgpu, ZEROS, page_of([chunk]), 1, per_s=10**12) < took / 20


def ptxas() -> str | None:
    """NVIDIA's assembler, where there is one."""
    return os.environ.get("PTXAS") or shutil.which("ptxas")


@pytest.mark.parametrize("card", CARDS)
def test_it_assembles_for_every_card(text: str, tmp_path: Path, card: str) -> None:
    assembler = ptxas()
    if assembler is None:
        pytest.skip("there is no ptxas")
    known = subprocess.run([assembler, "--help"], capture_output=True, text=True).stdout
    if f"'sm_{card}'" not in known:
        pytest.skip(f"this ptxas does not know sm_{card}")
    source = tmp_path / "kernels.ptx"
    source.write_text(text)
    command = [assembler, f"-arch=sm_{card}", "-v", "-o", str(tmp_path / "out"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    spilt = re.findall(r"(\d+) bytes spill", done.stderr)
    assert spilt, done.stderr
    assert not any(map(int, spilt)), done.stderr
