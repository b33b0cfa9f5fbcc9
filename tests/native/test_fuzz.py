"""What the shim and the agent's native thread read from sockets, fuzzed under sanitizers.

The shim's part is fuzzed by libFuzzer as well, where that is.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.fuzz import FUZZ, INPUTS, built, clang, count, sanitized

ROOT = Path(__file__).resolve().parents[2]
SOAK_S = 60
ROUNDS = 8
WITHOUT_LOCKS = """
#include <pthread.h>
#define pthread_mutex_lock(lock) ((void)(lock), 0)
#define pthread_mutex_unlock(lock) ((void)(lock), 0)
#define pthread_cond_wait(room, lock) ((void)(room), (void)(lock), sched_yield())
"""


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


def agent_thread(folder: Path, sanitizers: str, *flags: str) -> Path:
    """The agent's thread with programs that lie; skips the test where that cannot be built."""
    parts = sorted(ROOT.joinpath("native", "agent").glob("*.c"))
    sources = [FUZZ / "reader_peers.c", *(part.relative_to(ROOT) for part in parts)]
    try:
        return sanitized(sources, folder / "reader-peers", ROOT, sanitizers, *flags)
    except RuntimeError as error:
        pytest.skip(f"nothing here builds with -fsanitize={sanitizers}: {str(error)[-200:]}")


def run_rounds(program: Path, seed: int) -> subprocess.CompletedProcess[str]:
    """It ends at the first race: a thread that raced may leave another one waiting for ever."""
    return subprocess.run(
        [program, str(seed), str(ROUNDS)],
        env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"},
        capture_output=True,
        text=True,
        timeout=250,
    )


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_whatever_programs_send_to_the_agents_thread(sanitizers: str, tmp_path: Path) -> None:
    done = run_rounds(agent_thread(tmp_path, sanitizers), 1)
    assert done.returncode == 0, done.stderr[-4000:]
    packets, fired = map(int, re.findall(r"\d+", done.stdout))
    assert packets > 100 * ROUNDS
    assert fired > 0


def test_a_race_in_the_agents_thread_is_noticed(tmp_path: Path) -> None:
    header = tmp_path / "without_locks.h"
    header.write_text(WITHOUT_LOCKS)
    done = run_rounds(agent_thread(tmp_path, "thread", "-include", str(header)), 1)
    assert done.returncode != 0
    assert "data race" in done.stderr
