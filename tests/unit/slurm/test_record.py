"""What is kept of the steps of a job."""

from __future__ import annotations

import os
from pathlib import Path

from moiety.slurm.step.record import all_of, begin


def test_steps_are_numbered_and_kept(tmp_path: Path) -> None:
    first = begin(str(tmp_path), {"name": "a"})
    second = begin(str(tmp_path), {"name": "b"})
    second.write(exit=3)
    assert (first.number, second.number) == (0, 1)
    found = all_of(tmp_path)
    assert [(each["number"], each["name"], each.get("exit")) for each in found] == [
        (0, "a", None),
        (1, "b", 3),
    ]
    assert found[0]["pid"] == os.getpid()


def test_a_job_whose_folder_is_gone_has_steps_nevertheless(tmp_path: Path) -> None:
    for spool in ("", str(tmp_path / "gone")):
        step = begin(spool, {})
        step.write(exit=0)
        assert (step.number, step.is_kept) == (0, False)
    assert all_of(tmp_path) == []
    step = begin(str(tmp_path), {})
    (tmp_path / "steps" / "0.json").write_text("{")
    assert all_of(tmp_path) == []
    assert step.number == 0
