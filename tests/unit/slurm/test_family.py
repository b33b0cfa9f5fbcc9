"""All that came from a process is reached, also what has a session of its own or outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from moiety.slurm.step.family import Family
from moiety.testing.waiting import until

SCRIPT = "sleep 600 & setsid sleep 600 & set -m; sleep 600 & echo up; wait"


@pytest.fixture
def shell() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["bash", "-c", SCRIPT], stdout=subprocess.PIPE)
    family = Family(process.pid)
    yield process
    family.send(signal.SIGKILL)
    process.wait()
    assert process.stdout
    process.stdout.close()


def test_all_of_it_gets_a_signal_also_when_its_first_process_has_ended(
    shell: subprocess.Popen[bytes],
) -> None:
    assert shell.stdout
    assert shell.stdout.readline() == b"up\n"
    family = Family(shell.pid)
    until(lambda: len(family.alive()) == 4, "all are seen")
    assert family.alive()[0] == shell.pid
    others = family.alive()[1:]
    until(lambda: len({os.getsid(pid) for pid in others}) == 2, "one has a session of its own")
    shell.kill()
    shell.wait()
    assert sorted(family.alive()) == sorted(others), "they live on"
    family.send(signal.SIGKILL)
    until(lambda: not family.alive(), "they are gone")
    family.send(signal.SIGKILL)  # there is nobody


def test_of_a_process_that_is_gone_there_is_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
        assert Family(process.pid).alive() == []
