"""A decision costs a step for each tenant, not for each pair of them, and pairs are not missed."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.arbiter import events as ev
from moiety.arbiter.schedule.throttle import has_rivals
from moiety.arbiter.state.tenant import Tenant
from moiety.model.share import Share
from tests.support.backlog import GPU_BYTES
from tests.support.divided_card import DividedCard

FEW, MANY = 32, 128


def calls_of(shares: Sequence[Share], size: int) -> int:
    """The calls of functions in one decision about tenants that always have work."""
    card = DividedCard(shares, bytes_each=size, link_bytes_per_s=5e12)
    card.run(0.3)
    found = 0

    def count(frame: FrameType, kind: str, what: object) -> None:
        nonlocal found
        del frame, what
        found += kind in ("call", "c_call")

    for _ in range(4):
        sys.setprofile(count)
        try:
            card.tell(ev.Tick())
        finally:
            sys.setprofile(None)
        card.run(0.001)
    return found


@pytest.mark.parametrize(
    ("share", "size"),
    [
        (Share(gpu_limit=0.5), 1 << 20),
        (Share(gpu_limit=0.001), 1 << 20),
        (Share(gpu=0.001), 1 << 20),
        (Share(latency=True), 1 << 20),
        (Share(), GPU_BYTES // 20),
    ],
    ids=["limits", "tight limits", "parts", "latency", "turns"],
)
def test_four_times_the_tenants_cost_four_times_the_calls(share: Share, size: int) -> None:
    few, many = (calls_of([share] * n + [Share(gpu=0.5)], size) for n in (FEW, MANY))
    assert many < few * (MANY / FEW) * 1.5


shares = st.builds(
    Share,
    gpu=st.sampled_from([None, 0.05]),
    gpu_limit=st.sampled_from([1.0, 0.5]),
    latency=st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(shares, min_size=2, max_size=6), st.booleans())
def test_rivals_are_found_among_tenants_of_each_kind(asked: list[Share], crowded: bool) -> None:
    card = DividedCard(asked)
    round_ = card.arbiter._begin_round()
    round_.fair_share.crowded = {0} if crowded else set()
    tenants: list[Tenant] = list(round_.ledger.tenants.values())
    pairs = itertools.combinations(tenants, 2)
    assert has_rivals(round_, tenants) == any(round_.are_rivals(*pair) for pair in pairs)
