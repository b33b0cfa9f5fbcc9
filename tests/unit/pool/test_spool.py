"""The folder of a job: its script, and nothing for other users."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from moiety.agent.system.paths import Directory
from moiety.pool.launch.spool import keep_environment, prepare, remove, sweep, with_script
from moiety.pool.model.records import Submission
from moiety.pool.paths import PoolPaths
from tests.unit.pool.test_variables import ROW

ASKED = Submission(
    program="/bin/sh", argv=["/bin/sh", "-e", "{script}", "a"], cwd="/", script="#!/bin/sh\né\n"
)


def test_a_job_has_its_script_in_a_folder_of_its_own(tmp_path: Path) -> None:
    paths = PoolPaths(Directory(tmp_path))
    row = msgspec.structs.replace(ROW, uid=os.getuid())
    for _ in range(2):  # a second attempt finds the folder of the first
        spool = prepare(paths, row, ASKED)
        assert spool == str(paths.spool_of(12))
        script = Path(spool) / "slurm_script"
        assert script.read_text() == ASKED.script
        assert script.stat().st_mode & 0o777 == 0o555
        assert Path(spool).stat().st_mode & 0o777 == 0o700
    assert with_script(ASKED.argv, spool) == ["/bin/sh", "-e", f"{spool}/slurm_script", "a"]
    keep_environment(spool, {"A": "1", "B": "x\ny"})
    assert (Path(spool) / "environment").read_bytes() == b"A=1\0B=x\ny"
    paths.of_workload(12).mkdir(parents=True)
    for name in ("spec", "exit"):
        (paths.of_workload(12) / name).touch()
    remove(paths, 12)
    assert not Path(spool).exists()
    left = [path.name for path in paths.of_workload(12).iterdir()]
    assert left == ["exit"], "no environment of its user stays"


def test_a_link_in_the_place_of_the_variables_is_not_followed(tmp_path: Path) -> None:
    theirs = tmp_path / "pool.db"
    theirs.write_text("the store")
    spool = tmp_path / "7"
    spool.mkdir()
    (spool / "environment").symlink_to(theirs)
    with pytest.raises(FileExistsError):
        keep_environment(str(spool), {"A": "1"})
    assert theirs.read_text() == "the store"


def test_bytes_that_are_no_text_are_in_the_script(tmp_path: Path) -> None:
    paths = PoolPaths(Directory(tmp_path))
    row = msgspec.structs.replace(ROW, uid=os.getuid())
    asked = msgspec.structs.replace(ASKED, script="\xe9\xff", script_encoding="latin-1")
    spool = prepare(paths, row, asked)
    assert (Path(spool) / "slurm_script").read_bytes() == b"\xe9\xff"


def test_work_without_a_script_has_none(tmp_path: Path) -> None:
    paths = PoolPaths(Directory(tmp_path))
    plain = msgspec.structs.replace(ASKED, script="")
    assert prepare(paths, ROW, plain) == ""
    assert with_script(plain.argv, "") == ["/bin/sh", "-e", "{script}", "a"]
    keep_environment("", {"A": "1"})
    assert not paths.spool.exists()
    sweep(paths, {1})


def test_folders_of_jobs_that_are_over_are_removed(tmp_path: Path) -> None:
    paths = PoolPaths(Directory(tmp_path))
    row = msgspec.structs.replace(ROW, uid=os.getuid())
    for number in (1, 2):
        prepare(paths, msgspec.structs.replace(row, id=number), ASKED)
    sweep(paths, {2})
    assert os.listdir(paths.spool) == ["2"]
