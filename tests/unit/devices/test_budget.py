"""How a card is divided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.devices.budget import GIB, GRANULE_BYTES, MIB, budget, chunk_bytes


def test_a_big_card_keeps_room_for_four_contexts_and_a_little_headroom() -> None:
    found = budget(80 * GIB)
    assert found.headroom_bytes == 256 * MIB
    assert found.residue_bytes == 512 * MIB
    assert found.capacity_bytes == 80 * GIB - 256 * MIB - 4 * 512 * MIB
    assert found.chunk_bytes == 64 * MIB


def test_on_a_small_card_everything_is_a_share_of_it() -> None:
    found = budget(GIB)
    assert found.headroom_bytes == GIB // 50
    assert found.residue_bytes == GIB * 3 // 100
    assert found.chunk_bytes == 4 * MIB


def test_a_capacity_can_be_lowered_but_not_raised() -> None:
    assert budget(80 * GIB, 10 * GIB).capacity_bytes == 10 * GIB
    assert budget(80 * GIB, 80 * GIB).capacity_bytes == budget(80 * GIB).capacity_bytes


def test_a_capacity_is_whole_granules_as_nothing_less_can_be_used() -> None:
    assert budget(320 * MIB).capacity_bytes == 274 * MIB
    assert budget(80 * GIB, 10 * GIB + 5).capacity_bytes == 10 * GIB


@pytest.mark.parametrize(
    ("total", "chunk"),
    [(100 * MIB, 2), (512 * MIB, 2), (GIB, 4), (3 * GIB, 8), (15 * GIB, 32), (16 * GIB, 64)],
)
def test_chunks_suit_the_card(total: int, chunk: int) -> None:
    assert chunk_bytes(total) == chunk * MIB


@given(st.integers(0, 1 << 45), st.none() | st.integers(0, 1 << 45))
def test_the_parts_are_never_more_than_the_card(total: int, wanted: int | None) -> None:
    found = budget(total, wanted)
    assert 0 <= found.capacity_bytes <= total
    assert found.capacity_bytes % GRANULE_BYTES == 0
    assert found.capacity_bytes + found.headroom_bytes + 4 * found.residue_bytes <= total
    assert found.chunk_bytes & (found.chunk_bytes - 1) == 0
    assert 2 * MIB <= found.chunk_bytes <= 64 * MIB
