"""Whatever is asked for, and however large the programs are: parts come out right, and soon."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from moiety.arbiter.schedule.parts import parts
from moiety.model.share import Share
from tests.support.backlog import GPU_BYTES
from tests.support.divided_card import DividedCard

LINK_BYTES_PER_S = 400e9
ROUND_HANDOFFS = 20
"""the default turn factor makes a round of two ten times two hand-offs"""


@st.composite
def promises(draw: st.DrawFn) -> list[tuple[Share, int]]:
    """Two to five programs; what is asked for can be promised."""
    found = []
    left = 100
    for _ in range(draw(st.integers(2, 5))):
        asked = draw(st.integers(5, 60))
        gpu = asked / 100 if asked <= left and draw(st.booleans()) else None
        left -= asked if gpu else 0
        gpu_limit = draw(st.sampled_from([1.0, 1.0, 1.0, 0.6]))
        size = draw(st.sampled_from([1 << 30, 10 << 30, 30 << 30, 45 << 30, 60 << 30]))
        found.append((Share(gpu=gpu, gpu_limit=gpu_limit), size))
    return found


def begin(promised: list[tuple[Share, int]]) -> DividedCard:
    card = DividedCard([], link_bytes_per_s=LINK_BYTES_PER_S)
    for number, (share, size) in enumerate(promised, start=1):
        card.add(number, share, size)
    return card


def charged(card: DividedCard, promised: list[tuple[Share, int]], seconds: float) -> list[float]:
    """The parts of what each is charged with: its work, and its hand-offs if it has no promise."""
    card.run(0.0)
    handed, used = card.received_s(), dict(card.used_s)
    card.run(seconds)
    occupied = [after - before for after, before in zip(card.received_s(), handed, strict=True)]
    worked = [card.used_s[number] - used[number] for number in sorted(used)]
    if sum(size for _, size in promised) <= GPU_BYTES:
        return [each / sum(worked) for each in worked]
    found = [
        own if share.gpu else whole
        for (share, _), own, whole in zip(promised, worked, occupied, strict=True)
    ]
    return [each / sum(found) for each in found]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(promises())
@example([(Share(gpu=0.05), 60 << 30), (Share(gpu=0.95), 60 << 30)])
def test_backlogged_programs_receive_their_parts(promised: list[tuple[Share, int]]) -> None:
    if not any(share.is_timed for share, _ in promised):
        promised = [(Share(gpu=0.25), promised[0][1]), *promised[1:]]
    card = begin(promised)
    card.run(60)
    received = charged(card, promised, 240)
    expected = parts([share for share, _ in promised])
    caps = [share.gpu_limit for share, _ in promised]
    if sum(caps) > 1:
        assert received == pytest.approx(expected, abs=0.03)
    assert all(part <= cap + 0.03 for part, cap in zip(card.parts(240), caps, strict=True))
    for (share, _), part in zip(promised, received, strict=True):
        assert part >= (share.gpu or 0.0) - 0.03


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(5, 60), min_size=2, max_size=4),
    st.sampled_from([1 << 30, 60 << 30]),
    st.data(),
)
def test_moments_of_silence_do_not_move_the_parts(
    asked: list[int], size: int, data: st.DataObject
) -> None:
    whole = sum(asked)
    shares = [Share(gpu=part / whole) for part in asked]
    card = begin([(share, size) for share in shares])
    card.run(30)
    before, began_s = dict(card.used_s), card.now_s
    while card.now_s < began_s + 120:
        number = data.draw(st.integers(1, len(asked))) if card.now_s < began_s + 20 else 1
        card.nap(number, 0.003)
        card.run(0.903)
    worked = [card.used_s[number] - before[number] for number in sorted(before)]
    received = [each / sum(worked) for each in worked]
    assert received == pytest.approx([part / whole for part in asked], abs=0.03)


def test_a_round_is_as_short_as_its_handoffs_allow() -> None:
    handoff_s = 2 * (60 << 30) / LINK_BYTES_PER_S
    backlog = begin([(Share(gpu=part), 60 << 30) for part in (0.1, 0.9)])
    backlog.run(60)
    before = backlog.revokes
    backlog.run(40 * ROUND_HANDOFFS * handoff_s)
    rounds = (backlog.revokes - before) / 2
    assert 15 <= rounds <= 45  # a turn of three hand-offs at least, so that it is worth it
