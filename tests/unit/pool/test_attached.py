"""What a command beside a workload inherits from it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from moiety.agent.system import processes
from moiety.model.errors import WorkStateWrong
from moiety.pool.launch.attached import Attached, variables
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.starter.records import ProcessIdentity

ROW = WorkRow(
    id=7, name="w", project="p", uid=1, user="u", state=WorkState.RUNNING, gpus=0, gpu_milli=0,
    submitted_s=0.0,
)  # fmt: skip


def test_variables_may_have_any_value() -> None:
    assert variables(b"A=1\0B=x=y\n\0C=\xff\0junk\0") == {"A": "1", "B": "x=y\n", "C": "\udcff"}


def test_it_has_the_environment_and_the_folder_of_the_process(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; print('in', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        env={"MOIETY_JOB_ID": "7"},
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "in\n"
    started = processes.start_time(process.pid)
    assert started is not None
    found = Attached.of(ProcessIdentity(process.pid, started), ROW)
    assert found.environment["MOIETY_JOB_ID"] == "7"
    assert found.folder == os.path.realpath(tmp_path)
    with pytest.raises(WorkStateWrong):  # another process has that number now
        Attached.of(ProcessIdentity(process.pid, started - 1), ROW)
    process.communicate()
    with pytest.raises(WorkStateWrong):
        Attached.of(ProcessIdentity(process.pid, started), ROW)


def test_a_server_names_the_process_as_its_record_does() -> None:
    named = msgspec.json.decode(b'{"pid":7,"start_ticks":9}', type=ProcessIdentity)
    assert named == ProcessIdentity(7, 9)
