"""A log that stays small."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from moiety.agent.system.logs import BoundedFile, open_log
from moiety.config.values import LogFormat


def test_a_line_says_when_what_and_about_whom(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", also_stderr=False)
    log.info("joined", client="train.py (pid 7)", tenant=3, resumed=True)
    line = (tmp_path / "log").read_text()
    assert line.startswith("time=2")
    assert 'level=info event=joined client="train.py (pid 7)" tenant=3 resumed=true' in line


def test_what_programs_call_themselves_cannot_forge_a_line(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", also_stderr=False)
    log.info("joined", client="x\nlevel=error event=forged")
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_it_is_moved_aside_when_it_has_grown(tmp_path: Path) -> None:
    file = BoundedFile(tmp_path / "log", max_bytes=1000)
    for number in range(100):
        file.write(f"{number:099}\n")
    assert (tmp_path / "log").stat().st_size <= 1000
    assert (tmp_path / "log.1").stat().st_size <= 1000
    assert (tmp_path / "log").read_text().splitlines()[-1].endswith("99")
    file.close()


def test_a_folder_that_is_gone_costs_lines_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    file = BoundedFile(folder / "log", max_bytes=100)
    file.write("x" * 95)
    shutil.rmtree(folder)
    file.write("x" * 101)
    with open(tmp_path / "other", "w+b", buffering=0) as other:  # a number that is free again
        file.write("x" * 101)
        other.write(b"its own")
    assert (tmp_path / "other").read_bytes() == b"its own"
    folder.mkdir()
    file.write("here again\n")
    assert (folder / "log").read_text() == "here again\n"
    file.close()


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "full"])
def test_a_terminal_that_nobody_reads_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_closed: bool
) -> None:
    hears, tells = os.pipe()
    if is_closed:
        os.close(hears)
    else:
        os.set_blocking(tells, False)
        with suppress(BlockingIOError):
            while True:
                os.write(tells, b"x" * 4096)
        os.set_blocking(tells, True)
    with os.fdopen(tells, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        open_log(tmp_path / "log", also_stderr=True).info("joined")
        journal = tmp_path / "nobody"
        log = open_log(tmp_path / "x", also_stderr=True, form=LogFormat.JOURNAL, journal=journal)
        log.info("joined")
    assert "event=joined" in (tmp_path / "log").read_text()
    if not is_closed:
        os.close(hears)


def test_as_json_each_line_is_an_object(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", also_stderr=False, form=LogFormat.JSON)
    log.warning("dropped", client='x"\n', tenant=3)
    (line,) = (tmp_path / "log").read_text().splitlines()
    found = json.loads(line)
    assert (found["event"], found["level"]) == ("dropped", "warning")
    assert (found["client"], found["tenant"]) == ('x"\n', 3)
