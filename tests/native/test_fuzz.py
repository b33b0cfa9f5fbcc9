"""What the shim reads from its socket, fuzzed: under sanitizers, by libFuzzer where that is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.fuzz import INPUTS, built, clang, count

ROOT = Path(__file__).resolve().parents[2]
SOAK_S = 60


def test_whatever_the_agent_sends(tmp_path: Path) -> None:
    done = subprocess.run(
        [built(tmp_path, ROOT), "1", f"x{INPUTS}"], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert count(done.stdout) > INPUTS


@pytest.mark.soak
@pytest.mark.skipif(clang() is None, reason="libFuzzer comes with clang")
def test_whatever_libfuzzer_finds(tmp_path: Path) -> None:
    program = built(tmp_path, ROOT, libfuzzer=True)
    done = subprocess.run(
        [program, f"-max_total_time={SOAK_S}", "-max_len=4096", "-print_final_stats=1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    print(*re.findall(r"number_of_executed_units: (\d+)", done.stderr), "inputs by libFuzzer")
