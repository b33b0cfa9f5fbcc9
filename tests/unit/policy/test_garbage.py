"""Python looks for garbage again after a decision, whatever comes of it."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from moiety.model.errors import InvalidValue
from moiety.policy import cycle
from moiety.policy.cycle import decide
from moiety.policy.garbage import uncollected
from moiety.policy.model.snapshot import Snapshot
from tests.unit.policy.build import A, node, placed, work

SNAPSHOT = Snapshot((node(),), (work("job"),), queues=(A,))


def test_nothing_is_looked_for_while_a_decision_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Watched(cycle.Cycle):
        def run(self) -> None:
            seen.append(gc.isenabled())
            super().run()

    monkeypatch.setattr(cycle, "Cycle", Watched)
    assert set(placed(decide(SNAPSHOT))) == {"job/main/0"}
    assert seen == [False]
    assert gc.isenabled()


def test_it_is_looked_for_again_after_an_error() -> None:
    with pytest.raises(InvalidValue):
        decide(replace(SNAPSHOT, workloads=(work("job", "nowhere"),)))
    assert gc.isenabled()


def test_who_looks_for_none_stays_with_that() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
