"""The programs that `moiety slurm install` writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from moiety.cli.main import moiety
from moiety.model.errors import BadArgument
from moiety.slurm.install import install
from moiety.slurm.programs import PROGRAMS, VERSION, main
from moiety.version import __version__

HEAVY = ("asyncio", "click", "msgspec", "numpy", "sqlite3", "starlette", "uvicorn")


def test_all_programs_are_written_and_again(tmp_path: Path) -> None:
    for _ in range(2):
        done = CliRunner().invoke(moiety, ["slurm", "install", str(tmp_path / "bin")])
        assert done.exit_code == 0, done.output
    assert sorted(os.listdir(tmp_path / "bin")) == sorted(PROGRAMS)
    assert all(os.access(tmp_path / "bin" / name, os.X_OK) for name in PROGRAMS)


def test_a_program_of_others_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\necho the real one\n")
    with pytest.raises(BadArgument, match="was not written by moiety"):
        install(tmp_path)
    assert os.listdir(tmp_path) == ["squeue"]


def test_a_program_runs_in_any_folder_and_says_who_it_is(tmp_path: Path) -> None:
    install(tmp_path / "bin")
    (tmp_path / "json.py").write_text("raise SystemExit('a file of the folder was imported')")
    (tmp_path / "moiety.py").write_text("raise SystemExit('a file of the folder was imported')")
    for name in PROGRAMS:
        done = subprocess.run(
            [tmp_path / "bin" / name, "--version"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert done.stdout == f"slurm {VERSION} (moiety {__version__})\n", done.stderr


def test_it_passes_no_shell_that_would_drop_exported_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin")
    assert (tmp_path / "bin" / "sbatch").read_text().startswith(f"#!{sys.executable} -IS\n")
    spaced = tmp_path / "a folder"
    spaced.mkdir()
    (spaced / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(spaced / "python"))
    install(tmp_path / "bin")
    for name in ("sbatch", "squeue"):
        done = subprocess.run([tmp_path / "bin" / name, "-V"], capture_output=True, text=True)
        assert done.stdout.startswith("slurm "), done.stderr


def test_the_table_loads_nothing_slow() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; import moiety.slurm.programs, moiety.slurm.pool, moiety.slurm.labels; "
            f"print([name for name in {HEAVY!r} if name in sys.modules])",
        ],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_a_file_that_is_not_there_is_named_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Sequence[str]) -> int:
        with open("/nosuch/file"):
            return 0

    failing = ModuleType("failing")
    monkeypatch.setattr(failing, "main", fail, raising=False)
    monkeypatch.setitem(sys.modules, "failing", failing)
    monkeypatch.setitem(PROGRAMS, "srun", "failing")
    before = signal.getsignal(signal.SIGPIPE)
    try:
        with pytest.raises(SystemExit) as ended:
            main("srun", [])
    finally:
        signal.signal(signal.SIGPIPE, before)
    assert ended.value.code == 1
    assert capsys.readouterr().err == "srun: error: /nosuch/file: No such file or directory\n"
