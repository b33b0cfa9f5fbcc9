"""The demo, stopped halfway: nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, has_cuda_core


def processes_with(mark: str) -> list[str]:
    """Command lines of processes whose environment contains `mark`."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environ.read_bytes():
                found.append(environ.with_name("cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:
            continue  # it has ended meanwhile, or is somebody else's
    return [line.decode() for line in found]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_stopped_halfway_leaves_nothing_behind(
    tmp_path: Path, native: Path, number: signal.Signals
) -> None:
    if not has_cuda_core():
        pytest.skip("cuda-core is not installed: make test installs it")
    mark = f"TMPDIR={tmp_path}"
    demo = subprocess.Popen(
        [sys.executable, str(ROOT / "demo" / "run.py"), "--simulate", "--rounds", "1"],
        env={**os.environ, "TMPDIR": str(tmp_path), "MOIETY_NATIVE": str(native)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if "all three at once" in line:
            break
    else:
        pytest.fail("the demo ended before it shared anything")
    if number == signal.SIGINT:
        os.killpg(demo.pid, number)  # ctrl-C reaches everybody in the foreground
    else:
        demo.send_signal(number)
    demo.stdout.read()
    demo.stdout.close()
    assert demo.wait(60) == 128 + number
    assert processes_with(mark) == []
    assert list(tmp_path.iterdir()) == []
