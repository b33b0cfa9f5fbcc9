"""The check that guards what the shim may ask of a machine must itself say no."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.native import compile_c

CHECK = Path(__file__).resolve().parents[2] / "tools" / "symbols.py"
CALLS = """
#include <pthread.h>
static void *run(void *nothing) { return nothing; }
void cuStart(void) { pthread_t thread; pthread_create(&thread, 0, run, 0); }
void leaked(void) {}
"""


def check(folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, CHECK, folder], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def build(folder: Path, glibc: str) -> None:
    pytest.importorskip("ziglang", reason="only zig compiles for a chosen glibc")
    source = folder / "shim.c"
    source.write_text(CALLS)
    target = f"x86_64-linux-gnu.{glibc}"
    compile_c([source], folder / "libmoiety.so", shared=True, flags=("-target", target))


def test_a_symbol_that_old_systems_lack_is_found(tmp_path: Path) -> None:
    build(tmp_path, "2.34")
    code, said = check(tmp_path)
    assert code == 1
    assert "libmoiety.so needs GLIBC_2.34" in said


def test_another_library_and_a_name_that_leaks_are_found(tmp_path: Path) -> None:
    build(tmp_path, "2.17")
    code, said = check(tmp_path)
    assert code == 1
    assert "libmoiety.so links libpthread.so.0" in said
    assert "libmoiety.so exports leaked" in said
    assert "exports cuStart" not in said


def test_a_library_that_was_not_built_is_found(tmp_path: Path) -> None:
    code, said = check(tmp_path)
    assert code == 1
    assert "libnvidia-ml.so.1 was not built" in said
