"""Variables that are known only when a job starts."""

from __future__ import annotations

import msgspec

from moiety.pool.launch.variables import filled
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState

ROW = WorkRow(
    id=12, name="n", project="p", uid=1, user="ann", state=WorkState.STARTING, gpus=2,
    gpu_milli=1000, submitted_s=0, cards=[3, 5], attempt=2,
)  # fmt: skip


def test_marks_are_replaced_and_what_is_empty_is_left_out() -> None:
    asked = {
        "JOB": "%j",
        "BOTH": "%j of %A by %u",
        "INDEX": "%a",
        "CARDS": "%{cards}",
        "VISIBLE": "%{visible}",
        "RESTARTS": "%{restarts}",
        "SPOOL": "%{spool}",
        "FIXED": "50%% of %x",
        "UNKNOWN": "%q %{none}",
    }
    assert filled(asked, ROW, "/spool/12") == {
        "JOB": "12",
        "BOTH": "12 of 12 by ann",
        "CARDS": "3,5",
        "VISIBLE": "0,1",
        "SPOOL": "/spool/12",
        "FIXED": "50% of n",
        "UNKNOWN": "%q %{none}",
    }


def test_a_task_of_an_array_and_a_second_run_know_it() -> None:
    task = msgspec.structs.replace(ROW, array_id=7, array_index=3, restarts=1)
    asked = {"ARRAY": "%A_%a", "RESTARTS": "%{restarts}"}
    assert filled(asked, task) == {"ARRAY": "7_3", "RESTARTS": "1"}
