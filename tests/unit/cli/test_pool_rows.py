"""How workloads of the pool are shown."""

from __future__ import annotations

import msgspec
import pytest

from moiety.cli.pool_rows import asked_of, ended, lasted, rows_table
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState

ROW = WorkRow(
    id=1, name="sweep", project="nlp", uid=0, user="ann", state=WorkState.RUNNING,
    gpus=1, gpu_milli=1000, submitted_s=100.0, began_s=160.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "1"),
        ({"gpus": 4}, "4"),
        ({"gpu_milli": 500}, "0.5"),
        ({"gpus": 2, "gpu_milli": 250}, "2 x 0.25"),
        ({"gpu_milli": 0, "gpu_memory_mib": 2048}, "2048 MiB"),
        ({"gpus": 0, "gpu_milli": 0}, "-"),
    ],
)
def test_what_is_asked_of_the_gpus(values: dict[str, int], text: str) -> None:
    assert asked_of(msgspec.structs.replace(ROW, **values)) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"state": WorkState.DONE, "exit_code": 0}, "done"),
        ({"state": WorkState.FAILED, "exit_code": 3}, "failed, exit code 3"),
        ({"state": WorkState.FAILED, "exit_signal": 9}, "failed, by SIGKILL"),
        ({"state": WorkState.TIMED_OUT, "exit_signal": 60}, "timed out, by signal 60"),
    ],
)
def test_how_it_ended(values: dict[str, object], text: str) -> None:
    assert ended(msgspec.structs.replace(ROW, **values)) == text


def test_times_are_those_of_the_state() -> None:
    assert lasted(ROW, 170.0) == 10.0
    assert lasted(msgspec.structs.replace(ROW, began_s=None), 170.0) == 70.0
    assert lasted(msgspec.structs.replace(ROW, ended_s=165.0), 500.0) == 5.0
    assert lasted(ROW, 50.0) == 0.0, "the clock was set back"


def test_a_table_shows_no_control_characters() -> None:
    hostile = msgspec.structs.replace(ROW, reason="\x1b[2Jgone")
    assert "\x1b" not in rows_table([hostile])
