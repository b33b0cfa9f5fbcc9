"""Tenants come and go, and nothing that the agent made for them stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.growth import Scales
from moiety.agent import requests
from moiety.agent.caller import Call
from moiety.testing.weighed import OURS

TENANTS = 40
WORKLOAD = "moiety.agent.workloads.Workload"
BOUNDED = {"moiety.watch.neighbours.Stay", "moiety.agent.requests.Event"}
"""of these it has those of the last minute, and the last thousand"""
PASSING = {"moiety.agent.client.Client"}
"""whether a gang is whole is looked after for some seconds"""


def kept(scales: Scales) -> dict[str, int]:
    """The agent's objects of types of ours, but for those of which it keeps some on purpose."""
    objects = scales.weigh().objects
    return {
        name: count
        for name, count in objects.items()
        if name.startswith(OURS) and name not in BOUNDED
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_tenants_that_are_gone_no_object_is_left(native: Path, tmp_path: Path) -> None:
    with Scales(tmp_path, native, "--arena-ready", "0", asks=4) as scales:
        with Call(scales.directory) as call:
            call.ask(requests.CreateWorkload("test", ["test"], "/"), requests.Created)
        scales.pass_by(TENANTS)
        scales.until(lambda: not kept(scales).keys() & PASSING, "nothing is under way any more")
        before = kept(scales)
        assert before[WORKLOAD] == 1, "of who is there, there is something"
        scales.pass_by(TENANTS)
        after = before.copy()

        def is_as_before() -> bool:
            after.clear()
            after.update(kept(scales))
            return after == before

        try:
            scales.until(is_as_before, "all is as it was before")
        except AssertionError:
            assert after == before
