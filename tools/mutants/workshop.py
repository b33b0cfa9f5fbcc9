"""Copies of the checkout in which tests run with a mistake in one file."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.mutants.areas import ROOT
from tools.mutants.mutant import Fate, Mutant

LIMIT_S: Final = 600.0
"""How long the tests of one mistake may take."""
FOLDERS: Final = ("bench", "deploy", "demo", "docs", "native", "src", "tests", "tools")
OPTIONS: Final = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--timeout", "120")


class Workshop:
    """One copy; `native` is the folder of a native build of the checkout."""

    def __init__(self, folder: Path, native: Path, passed: set[tuple[str, ...]]) -> None:
        """`passed`: the tests that are known to pass without a mistake, in any copy."""
        self.folder = folder
        self._native = native
        self._passed = passed
        self._times = itertools.count(int(time.time()) - 10_000_000)
        for name in FOLDERS:
            left_out = shutil.ignore_patterns("__pycache__", "results")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=left_out)
        for file in ROOT.iterdir():
            if file.is_file():
                shutil.copy2(file, folder)

    def judge(self, mutant: Mutant) -> Fate:
        """Run its tests with the mistake; if some fail, they have to pass without it."""
        with self._with_mistake(mutant) as native:
            if native is None:
                return Fate.NOTICED  # by the compiler
            for tests in mutant.tests:
                if code := self._pytest(tests, native):
                    break
            else:
                return Fate.ALIVE
        if code < 0:
            return Fate.TIMED_OUT
        return Fate.NOTICED if self._pass(tests) else Fate.UNKNOWN

    def _pass(self, tests: tuple[str, ...]) -> bool:
        """Whether these tests pass without a mistake."""
        if tests not in self._passed and self._pytest(tests, self._native) == 0:
            self._passed.add(tests)
        return tests in self._passed

    @contextmanager
    def _with_mistake(self, mutant: Mutant) -> Iterator[Path | None]:
        file = self.folder / mutant.path
        right = file.read_text()
        self._write(file, mutant.text)
        try:
            yield self._build() if file.suffix == ".c" else self._native
        finally:
            self._write(file, right)

    def _write(self, file: Path, text: str) -> None:
        """Python knows what it compiled by second and size: each text has its own second."""
        file.write_text(text)
        if file.suffix == ".py":
            when = next(self._times)
            os.utime(file, (when, when))

    def _build(self) -> Path | None:
        """A folder with the shim of this copy, and all else of the checkout's native build.

        None: it does not compile.
        """
        made, build = self.folder / "build" / "all", self.folder / "build" / "shim"
        if not made.exists():
            made.mkdir(parents=True)
            for each in self._native.iterdir():
                (made / each.name).symlink_to(each.resolve())
            (made / "libmoiety.so").unlink()
            (made / "libmoiety.so").symlink_to(build / "libmoiety.so")
            command = ["cmake", "-S", str(self.folder), "-B", str(build), "-G", "Ninja"]
            command += ["-DCMAKE_BUILD_TYPE=Release"]
            command += [f"-DCMAKE_TOOLCHAIN_FILE={self.folder / 'tools' / 'zig.cmake'}"]
            subprocess.run(command, check=True, capture_output=True)
        done = subprocess.run(["ninja", "-C", str(build), "shim"], capture_output=True)
        return made if done.returncode == 0 else None

    def _pytest(self, tests: Sequence[str], native: Path) -> int:
        """Pytest's exit code; below 0: it took too long."""
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join((str(self.folder / "src"), str(self.folder))),
            "PYTHONPYCACHEPREFIX": str(self.folder / "pycache"),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.folder / "hypothesis"),
            "MOIETY_NATIVE": str(native),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *OPTIONS, *_chosen(tests), *tests],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _chosen(tests: Sequence[str]) -> list[str]:
    """Whole folders run without what is slow."""
    return [] if tests[0].endswith(".py") else ["-m", "not slow and not gpu and not soak"]
