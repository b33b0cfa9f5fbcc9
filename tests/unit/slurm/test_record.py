"""What is kept of the steps of a job."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from moiety.slurm.step.record import begin, records_in


def kept(folder: Path, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "steps" / f"{number}.json").read_text())
    return found


def test_steps_are_numbered_and_kept(tmp_path: Path) -> None:
    first = begin(str(tmp_path), {"name": "a"})
    second = begin(str(tmp_path), {"name": "b"})
    second.write(exit=3)
    assert (first.number, second.number) == (0, 1)
    assert kept(tmp_path, 0) == first.content
    assert kept(tmp_path, 1) == second.content
    assert [first.content.get("exit"), second.content.get("exit")] == [None, 3]
    assert first.content["pid"] == os.getpid()


def test_a_job_whose_folder_is_gone_has_steps_nevertheless(tmp_path: Path) -> None:
    for spool in ("", str(tmp_path / "gone")):
        step = begin(spool, {})
        step.write(ended_s=1.0)
        step.was_told()
        assert (step.number, step.is_kept, step.untold()) == (0, False, [])
    assert list(tmp_path.iterdir()) == []


def test_what_ended_and_was_not_told_is_found_by_the_next_step(tmp_path: Path) -> None:
    for number in range(13):
        step = begin(str(tmp_path), {"name": str(number)})
        if number != 4:
            step.write(ended_s=1.0)
        if number % 2:
            step.was_told()
    (tmp_path / "steps" / "6.json").write_text("{")
    (tmp_path / "steps" / "8.json").write_text("[]")
    last = begin(str(tmp_path), {})
    last.write(ended_s=2.0)
    assert [each.content["name"] for each in last.untold()] == ["0", "2", "10", "12"]
    later = begin(str(tmp_path), {})
    assert [each.number for each in later.untold()] == [0, 2, 10, 12, last.number]
    assert all(each.number < last.number for each in last.untold())


def test_steps_that_run_at_the_same_time_have_gpus_of_their_own(tmp_path: Path) -> None:
    job = ["0", "1", "2"]
    steps = [begin(str(tmp_path), {}, job, 1) for _ in range(4)]
    assert [step.content["cards"] for step in steps] == [["0"], ["1"], ["2"], ["0"]]
    steps[1].write(ended_s=1.0)
    damaged = tmp_path / "steps" / f"{steps[2].number}.json"
    damaged.write_text("[]")
    assert begin(str(tmp_path), {}, job, 2).content["cards"] == ["1", "2"]
    killed = begin(str(tmp_path), {}, job, 1)
    killed.write(start_ticks=1)
    assert begin(str(tmp_path), {}, job, 1).content["cards"] == killed.content["cards"]
    assert begin("", {}, job, 2).content["cards"] == ["0", "1"], "the job has no folder"


def test_what_is_no_record_is_neither_waited_for_nor_followed(tmp_path: Path) -> None:
    begin(str(tmp_path), {}, ["0", "1"], 1)
    steps, secret = tmp_path / "steps", tmp_path / "secret"
    secret.write_text('{"ended_s": 1.0, "cards": ["1"]}')
    os.mkfifo(steps / "7.json")
    (steps / "8.json").symlink_to(secret)
    (steps / "9.json").mkdir()
    (steps / "x.json").write_text("{}")
    (steps / "10.json").write_text('{"pid": "me", "start_ticks": 1, "cards": 5}')
    assert [number for number, _, _ in records_in(steps)] == [0, 10]
    later = begin(str(tmp_path), {}, ["0", "1"], 1)
    assert (later.content["cards"], later.untold()) == (["1"], [])
