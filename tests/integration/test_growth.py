"""Tenants come and go, and nothing that the agent made for them stays."""

from __future__ import annotations

import enum
from pathlib import Path

import pytest

from bench.growth import Scales
from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.wire import layout
from tests.support.memory_probe import OURS

TENANTS = 40
WORKLOAD = "moiety.agent.control.running_workload.RunningWorkload"
BOUNDED = {
    "moiety.enforcement.interference.Stay",
    "moiety.agent.core.journal_events.Event",
    "moiety.agent.core.journal._Repeats",
    "moiety.devices.telemetry.Telemetry",
}
"""of these it has those of the last minute, the last thousand, those of ten seconds, one a GPU
(in this order)"""
FLAGS = {
    f"{layout.__name__}.{name}"
    for name, each in vars(layout).items()
    if isinstance(each, type) and issubclass(each, enum.Flag)
}
"""each has an object for every combination of its flags, from when it is first met"""
PASSING = {"moiety.agent.core.client.Client"}
"""whether a gang is whole is looked after for some seconds"""


def kept(scales: Scales) -> dict[str, int]:
    """The agent's objects of types of ours, but for those of which it keeps some on purpose."""
    objects = scales.weigh().objects
    return {
        name: count
        for name, count in objects.items()
        if name.startswith(OURS) and name not in BOUNDED | FLAGS
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_tenants_that_are_gone_no_object_is_left(native: Path, tmp_path: Path) -> None:
    with Scales(tmp_path, native, "--arena-ready", "0", asks=4) as scales:
        with Call(scales.directory) as call:
            call.ask(protocol.CreateWorkload("test", ["test"], "/"), protocol.Created)
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
