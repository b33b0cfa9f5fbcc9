"""Pages before they are needed."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
import os, re, sys
from pathlib import Path
from moiety.agent.system import heap_warmup
from tests.support.memory_probe import resident_bytes

start = resident_bytes(os.getpid())

def more(size):
    before = resident_bytes(os.getpid())
    kept = [bytes(479) for _ in range(size // 512)]
    return resident_bytes(os.getpid()) - before

pinned = [bytes(479)]
filled = []  # what imports left free: compiling a module frees much
while resident_bytes(os.getpid()) - start < 1 << 20:
    filled += [bytes(479) for _ in range(64)]
if sys.argv[1] == "touched":
    heap_warmup.touch()
print(more(256 << 10))
"""


def _grows(how: str) -> int:
    return int(subprocess.check_output([sys.executable, "-c", PROBE, how], text=True))


def test_what_was_touched_does_not_grow_when_it_is_used() -> None:
    assert _grows("touched") < _grows("untouched")
