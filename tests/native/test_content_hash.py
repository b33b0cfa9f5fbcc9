"""The kernel that hashes a chunk: its PTX, simgpu's form of it, and the formula in Python."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.scan_kernels import BLOCKS, Page, interpret, module_text, page_of, simulate

MIB = 1 << 20
HASH, ZEROS = "moiety_hash", "moiety_find_zeros"
PRIME = (1 << 61) - 1
KEYS = 27
ROUND = 65536
NOT_RUN = (1 << 64) - 1

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return module_text(tmp_path_factory.mktemp("ptx"))


@pytest.fixture(scope="module")
def keys() -> bytes:
    chance = random.Random(5)
    largest = [PRIME - 1] * 3
    drawn = [chance.randrange(PRIME) for _ in range(2 * KEYS)]
    return b"".join(key.to_bytes(8, "little") for key in largest + drawn[len(largest) :])


def some(size: int, seed: int) -> Bytes:
    """Random bytes at an address that the kernels can read, some of them all ones."""
    made = np.zeros(size + 256, np.uint8)
    chunk = made[-made.ctypes.data % 256 :][:size]
    chunk[:] = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    chunk[100000:140000] = 255
    return chunk


def given(keys: bytes, first: int = 0) -> dict[str, bytes]:
    return {"keys": keys, "first": first.to_bytes(4, "little")}


def by_simgpu(simgpu: Path, page: Page, chunks: int, keys: bytes, first: int = 0) -> int:
    key = ctypes.create_string_buffer(keys, len(keys))
    return simulate(simgpu, HASH, page, chunks, ctypes.c_uint32(first), key)


def asked(chunks: Sequence[Bytes]) -> Page:
    page = page_of(chunks)
    ctypes.memset(ctypes.addressof(page.hash), 0xFF, ctypes.sizeof(page.hash))
    return page


def hashes(page: Page, chunk: int = 0) -> list[tuple[int, int]]:
    return [(pair[0], pair[1]) for pair in page.hash[chunk]]


def formula(chunk: Bytes, keys: bytes, block: int) -> tuple[int, int]:
    """What block `block` computes, from the definition and without its order."""
    found = []
    for which in range(2):
        key = [int.from_bytes(keys[8 * (which * KEYS + i) :][:8], "little") for i in range(KEYS)]
        total = 0
        for at in range(block * ROUND, len(chunk), BLOCKS * ROUND):
            words = chunk[at : at + ROUND].view("<u4").astype(object).reshape(4, 1024, 4)
            weights = np.array(key[:16], object).reshape(4, 1, 4)
            threads = (words * weights).sum(axis=(0, 2))
            sums = sum(int(v) * factor(key, t) for t, v in enumerate(threads))
            total = (total * key[16] + sums) % PRIME
        found.append(total)
    return found[0], found[1]


def factor(key: Sequence[int], thread: int) -> int:
    """The product of the keys of the levels at which a thread is in the upper half."""
    product = 1
    for level in range(10):
        if thread >> (9 - level) & 1:
            product = product * key[17 + level] % PRIME
    return product


@pytest.mark.parametrize("size", [2 * MIB, 18 * MIB])
def test_all_forms_compute_the_same(text: str, simgpu: Path, keys: bytes, size: int) -> None:
    chunk = some(size, 1)
    page, other = asked([chunk]), asked([chunk])
    blocks = range(BLOCKS) if size == 2 * MIB else [0, 17, 31]
    barriers = interpret(text, HASH, page, [chunk], given(keys), blocks)
    assert barriers == 20 * len(blocks), "ten levels with two barriers"
    by_simgpu(simgpu, other, 1, keys)
    assert [hashes(page)[b] for b in blocks] == [hashes(other)[b] for b in blocks]
    assert len(set(hashes(other))) == BLOCKS
    for block in (0, 17, 31):
        assert hashes(other)[block] == formula(chunk, keys, block)


def test_any_changed_bit_changes_the_hash_of_its_block(
    text: str, simgpu: Path, keys: bytes
) -> None:
    chunk = some(4 * MIB, 2)
    before = asked([chunk])
    by_simgpu(simgpu, before, 1, keys)
    chance = random.Random(3)
    for _ in range(12):
        at, bit = chance.randrange(4 * MIB), 1 << chance.randrange(8)
        chunk[at] ^= bit
        after, ptx = asked([chunk]), asked([chunk])
        by_simgpu(simgpu, after, 1, keys)
        block = at // ROUND % BLOCKS
        differ = [b for b in range(BLOCKS) if hashes(after)[b] != hashes(before)[b]]
        assert differ == [block]
        both = [
            one != two for one, two in zip(hashes(after)[block], hashes(before)[block], strict=True)
        ]
        assert both == [True, True], "each of the two hashes changes"
        interpret(text, HASH, ptx, [chunk], given(keys), [block])
        assert hashes(ptx)[block] == hashes(after)[block]
        chunk[at] ^= bit


def test_swapped_words_rounds_and_threads_change_the_hash(simgpu: Path, keys: bytes) -> None:
    chunk = some(4 * MIB, 4)
    before = asked([chunk])
    by_simgpu(simgpu, before, 1, keys)
    swaps = {"words": (0, 4), "lines": (0, 16384), "threads": (0, 16), "rounds": (0, 2 * MIB)}
    for name, (one, two) in swaps.items():
        changed = chunk.copy()
        page = asked([changed])
        changed[one : one + 4], changed[two : two + 4] = chunk[two : two + 4], chunk[one : one + 4]
        by_simgpu(simgpu, page, 1, keys)
        assert hashes(page)[0] != hashes(before)[0], name


def test_parts_that_hold_zeros_have_the_hash_zero_and_are_not_read(
    text: str, simgpu: Path, keys: bytes
) -> None:
    chunk = some(2 * MIB, 6)
    chunk[: 3 * ROUND] = 0
    page, other, unscanned = asked([chunk]), asked([chunk]), asked([chunk])
    interpret(text, ZEROS, page, [chunk])
    interpret(text, HASH, page, [chunk], given(keys))
    simulate(simgpu, ZEROS, other, 1)
    took = by_simgpu(simgpu, other, 1, keys)
    whole = by_simgpu(simgpu, unscanned, 1, keys)
    assert hashes(page) == hashes(other) == hashes(unscanned)
    assert hashes(page)[:3] == [(0, 0)] * 3
    assert took == pytest.approx(whole * (BLOCKS - 3) / BLOCKS, rel=0.02)
    assert whole == pytest.approx(2 * MIB / 1e12 * 1e9, rel=0.01), "as fast as the card's memory"


def test_only_the_chunks_that_were_asked_for_get_a_hash(
    text: str, simgpu: Path, keys: bytes
) -> None:
    chunks = [some(2 * MIB, seed) for seed in (7, 8, 9)]
    page, other = asked(chunks), asked(chunks)
    interpret(text, HASH, page, chunks, given(keys, first=1), range(0, 32, 8), columns=1)
    by_simgpu(simgpu, other, 1, keys, first=1)
    for answers in (page, other):
        assert hashes(answers, 0) == hashes(answers, 2) == [(NOT_RUN, NOT_RUN)] * BLOCKS
    assert hashes(page, 1)[::8] == hashes(other, 1)[::8]
    assert (NOT_RUN, NOT_RUN) not in hashes(other, 1)
