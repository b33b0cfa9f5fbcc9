"""When a step is warned of the time limit of its job."""

from __future__ import annotations

from typing import Any

import pytest

from moiety.model.errors import NoPool
from moiety.slurm.step import warning
from tests.support.slurm_rows import row_of

JOB = {"SLURM_JOB_ID": "7", warning.VARIABLE: "10@90"}


class FakePool:
    """A pool with one job, or none."""

    def __init__(self, row: dict[str, Any] | None) -> None:
        self._row = row

    def __call__(self) -> FakePool:
        return self

    def row(self, number: str) -> dict[str, Any]:
        assert number == "7"
        if self._row is None:
            raise NoPool("/run")
        return self._row

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("values", "ran_s", "left_s"),
    [
        ({"time_limit_s": 600.0}, 0.0, 510.0),
        ({"time_limit_s": 600.0}, 500.0, 10.0),
        ({"time_limit_s": 600.0, "suspended_s": 100.0}, 500.0, 110.0),
        ({"time_limit_s": 600.0}, 520.0, -10.0),
        ({"time_limit_s": 60.0}, 2.0, -2.0),
        ({"time_limit_s": None}, 0.0, None),
    ],
)
def test_how_long_it_is_until_the_signal(
    values: dict[str, Any], ran_s: float, left_s: float | None
) -> None:
    row = row_of(began_s=1_000.0, **values)
    assert warning.left_of(row, 90.0, 1_000.0 + ran_s) == left_s


@pytest.mark.parametrize(
    ("ran_s", "expected"), [(0.0, (510.0, 10)), (512.0, (0.0, 10)), (520.0, None)]
)
def test_a_step_that_begins_after_the_signal_gets_none(
    monkeypatch: pytest.MonkeyPatch, ran_s: float, expected: tuple[float, int] | None
) -> None:
    monkeypatch.setattr("moiety.slurm.step.warning.time.time", lambda: 1_000.0 + ran_s)
    monkeypatch.setattr(warning, "SlurmPool", FakePool(row_of(began_s=1_000.0, time_limit_s=600.0)))
    left = warning.of_job(JOB)
    assert left is not None
    assert left() == expected


def test_without_a_signal_or_a_pool_there_is_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warning, "SlurmPool", FakePool(None))
    assert warning.of_job({"SLURM_JOB_ID": "7"}) is None
    left = warning.of_job(JOB)
    assert left is not None
    assert left() is None
