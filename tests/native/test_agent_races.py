"""The agent's native thread beside all that Python calls; in `make soak` by ThreadSanitizer."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.native import compile_c

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "tests/native/agent_races.c", *sorted((ROOT / "native/agent").glob("*.c")))
SOAK_S = 60


def fired(said: str) -> int:
    """How many transitions the thread carried out."""
    found = re.match(r"(\d+) transitions fired", said)
    assert found, said
    return int(found.group(1))


def test_the_thread_carries_out_what_is_armed_whatever_is_called(tmp_path: Path) -> None:
    program = compile_c(SOURCES, tmp_path / "races", flags=(f"-I{ROOT / 'native'}", "-lpthread"))
    done = subprocess.run([program, "1", "1"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert fired(done.stdout) > 0


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("gcc") is None, reason="ThreadSanitizer is taken from gcc")
def test_no_step_of_the_thread_races_with_python(tmp_path: Path) -> None:
    program = tmp_path / "races"
    how = ("-std=gnu11", "-O1", "-g", "-D_GNU_SOURCE", "-fsanitize=thread", f"-I{ROOT / 'native'}")
    files = [str(each) for each in (*SOURCES, "-o", program, "-lpthread")]
    subprocess.run(["gcc", *how, *files], check=True)
    command = [str(program), str(SOAK_S), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * SOAK_S)
    assert done.returncode == 0, done.stderr[-4000:]
    print(fired(done.stdout), "transitions fired under ThreadSanitizer")
