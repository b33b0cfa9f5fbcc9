"""How a process ended, as the kernel tells it to processes that did not start it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from moiety.cli import exit_status as module
from moiety.cli.exit_status import _shown, exit_code
from moiety.cli.wait import _fields, ended
from tests.unit.top.test_rows import row


def over(command: list[str], *, is_reaped: bool, number: int = 0) -> tuple[int | None, int | None]:
    """What is known of a process that ended, of its pidfd and of its pid alone."""
    with subprocess.Popen(command) as process:
        pidfd = os.pidfd_open(process.pid)
        try:
            if number:
                process.send_signal(number)
            os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
            if is_reaped:
                process.wait()
            return exit_code(pidfd, process.pid), _shown(process.pid)
        finally:
            os.close(pidfd)


@pytest.mark.parametrize("code", [0, 3])
def test_a_process_whose_parent_has_not_asked_shows_its_code(code: int) -> None:
    assert over(["sh", "-c", f"exit {code}"], is_reaped=False) == (code, code << 8)


def test_a_signal_is_a_negative_number() -> None:
    found = over(["sleep", "1000"], is_reaped=False, number=signal.SIGKILL)
    assert found == (-signal.SIGKILL, signal.SIGKILL)


def test_afterwards_the_kernel_tells_it_or_it_is_not_known() -> None:
    code, shown = over(["sh", "-c", "exit 3"], is_reaped=True)
    assert shown is None
    release = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
    assert code in ((3,) if release >= (6, 15) else (3, None))


def test_the_zero_that_other_users_see_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (a) b) Z " + "0 " * 48 + "0")
    owner = (tmp_path / "7").stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert _shown(7, tmp_path) is None
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    assert _shown(7, tmp_path) == 0
    (tmp_path / "7/stat").write_text("7 (a) S " + "0 " * 48 + "0")
    assert _shown(7, tmp_path) is None, "it lives"


def test_an_older_kernel_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GET_INFO", 0)
    assert over(["sh", "-c", "exit 3"], is_reaped=True)[0] is None


@pytest.mark.parametrize(
    ("code", "text", "fields"),
    [
        (3, "ended with code 3", (3, None)),
        (-15, "was ended by SIGTERM", (None, "SIGTERM")),
        (-40, "was ended by signal 40", (None, "signal 40")),
        (None, "only the program that started it knows the exit code", (None, None)),
    ],
)
def test_it_is_said_in_words_and_as_fields(
    code: int | None, text: str, fields: tuple[int | None, str | None]
) -> None:
    assert ended(row(), code).startswith("train (pid 4701) ")
    assert ended(row(), code).endswith(text)
    found = _fields(row(), code)
    assert (found["exit_code"], found["signal"]) == fields
