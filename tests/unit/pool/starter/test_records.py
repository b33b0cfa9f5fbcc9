"""The records of a supervisor are read whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.pool.starter.records import (
    Damaged,
    EndReason,
    Exit,
    Exited,
    FailedToStart,
    Lost,
    Outcome,
    ProcessIdentity,
    Signaled,
    Started,
    read_exit,
    read_started,
)

STARTED = """attempt 2
boot_id 99560dd2-1d3c-4139-9301-e92ca90b2678
supervisor 10 1234
child 11 1235
processes cgroup
limits memory,pids
begin 1700000000.250000
"""
EXIT = """attempt 2
exited 3
reason time_limit
begin 1700000000.250000
end 1700000001.500000
user 0.250000
system 0.125000
maxrss 2048
"""


def test_a_record_of_the_start_is_read(tmp_path: Path) -> None:
    (tmp_path / "started").write_text(STARTED)
    expected = Started(
        attempt=2,
        boot_id="99560dd2-1d3c-4139-9301-e92ca90b2678",
        supervisor=ProcessIdentity(10, 1234),
        child=ProcessIdentity(11, 1235),
        processes="cgroup",
        limits=frozenset({"memory", "pids"}),
        begin_s=1700000000.25,
    )
    assert read_started(tmp_path) == expected
    fd = os.open(tmp_path, os.O_RDONLY)
    assert read_started(fd) == expected
    os.close(fd)


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("exited 3", Exited(3)),
        ("signaled 9", Signaled(9)),
        ("failed_to_start 2 x: No such file", FailedToStart(2, "x: No such file")),
        ("failed_to_start 2 \x9b31m\x1b", FailedToStart(2, "?31m?")),
        ("lost exit status lost", Lost()),
    ],
)
def test_a_record_of_the_end_is_read(tmp_path: Path, line: str, outcome: Outcome) -> None:
    (tmp_path / "exit").write_text(EXIT.replace("exited 3", line))
    assert read_exit(tmp_path) == Exit(
        2, outcome, EndReason.TIME_LIMIT, 1700000000.25, 1700000001.5, 0.25, 0.125, 2048
    )


def test_a_missing_record_is_no_damaged_one(tmp_path: Path) -> None:
    assert read_started(tmp_path) is None
    assert read_exit(tmp_path) is None


@given(st.integers(0, len(EXIT) - 1), st.integers(0, len(STARTED) - 1))
def test_every_record_that_is_cut_off_is_damaged(exit_bytes: int, started_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "exit").write_text(EXIT[:exit_bytes])
        (folder / "started").write_text(STARTED[:started_bytes])
        assert isinstance(read_exit(folder), Damaged)
        assert isinstance(read_started(folder), Damaged)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "exit").write_bytes(content)
        assert isinstance(read_exit(Path(folder)), Damaged)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (EXIT.replace("exited 3\n", ""), "it does not say how the workload ended"),
        (EXIT.replace("end 1700000001.500000\n", ""), "it has no line 'end'"),
        (EXIT + "attempt 3\n", "a line is there twice"),
        (EXIT[:-1], "its last line is not whole"),
        ("", "its last line is not whole"),
    ],
)
def test_a_damaged_record_says_why(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "exit").write_text(text)
    assert read_exit(tmp_path) == Damaged("exit", why)


def test_neither_a_link_nor_a_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(EXIT)
    (tmp_path / "exit").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "started").mkdir()
    assert isinstance(read_exit(tmp_path), Damaged)
    assert isinstance(read_started(tmp_path), Damaged)
