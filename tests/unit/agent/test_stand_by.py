"""An agent that stands by begins once the one before it has ended, and not before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.process import main
from moiety.agent.system.stand_by import AFTER, Standby, stand_by, wait_for_end
from moiety.devices.nvml import Nvml, NvmlUnavailable
from moiety.model.errors import MoietyError, NoGpu

LONG_S = 60.0


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """An agent keeps its files from others; the tests that follow in this process do not."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture
def before() -> subprocess.Popen[bytes]:
    """A process that lives until it is ended."""
    return subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)


def test_it_begins_once_the_process_before_it_has_ended(before: subprocess.Popen[bytes]) -> None:
    standby, begun = Standby(), threading.Event()
    fd = os.dup(standby.theirs.fileno())

    def wait() -> None:
        if stand_by(fd):
            begun.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert standby.wait(LONG_S)
    standby.begin_after(before.pid)
    assert not begun.wait(0.05)
    before.communicate()
    assert begun.wait(LONG_S)
    thread.join()
    standby.close()


def test_it_ends_if_the_command_does() -> None:
    standby = Standby()
    fd = os.dup(standby.theirs.fileno())
    standby.close()
    assert not stand_by(fd)


def test_a_process_that_ends_before_it_stands_by_is_noticed() -> None:
    standby = Standby()
    assert not standby.wait(LONG_S)
    standby.begin_after(os.getpid())
    standby.close()


def test_a_process_that_is_gone_is_not_waited_for(before: subprocess.Popen[bytes]) -> None:
    assert not wait_for_end(before.pid, 0.01)
    before.send_signal(signal.SIGKILL)
    before.communicate()
    assert wait_for_end(before.pid, LONG_S)


def told(arguments: list[str], standby: Standby) -> str:
    """The answer of an agent with these arguments, which cannot start."""
    ready, theirs = os.pipe()
    after = os.dup(standby.theirs.fileno())
    with pytest.raises(MoietyError):
        main(["--ready-fd", str(theirs), AFTER, str(after), *arguments])
    with os.fdopen(ready, "rb") as pipe:
        return str(json.loads(pipe.readline()))


def test_settings_that_are_wrong_stop_it_before_the_last_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOIETY_DIR", str(tmp_path))
    standby = Standby()
    assert "the agent does not know '--no-such-option'" in told(["--no-such-option"], standby)

    def absent(_: Nvml) -> None:
        raise NvmlUnavailable("no library")

    monkeypatch.setattr(Nvml, "__init__", absent)
    assert NoGpu.__name__ in told([], standby)
    assert not standby.wait(0.05), "it did not stand by"
    assert not any(tmp_path.iterdir()), "nor took anything"
    standby.close()
