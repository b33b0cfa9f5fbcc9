"""Programs that compute on a GPU and check every word of it: what they find, and what they say."""

from __future__ import annotations

import re
import signal
import subprocess
from typing import Final

from moiety.testing.node import finish

RIGHT: Final = re.compile(r"(?<![0-9])0 words wrong\n\Z")
"""at the end of what it prints; not 10 words"""


def assert_right(*processes: subprocess.Popen[str]) -> None:
    """Each ends by itself and found no word wrong; else the error has what all of them said."""
    done = {process.pid: finish(process) for process in processes}
    well = all(code == 0 and RIGHT.search(out) for code, out, _ in done.values())
    said = [f"pid {pid} ended with {code}: {out}{err}" for pid, (code, out, err) in done.items()]
    assert well, "\n".join(said)


def assert_right_once_stopped(*running: subprocess.Popen[str]) -> None:
    """The same of programs that run until they are told to stop."""
    for process in running:
        process.send_signal(signal.SIGUSR1)
    assert_right(*running)
