"""Which agent is meant, and who may go through its directory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from moiety.agent.directory import Directory, find, prepare, system
from moiety.model.errors import BadSetting


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOIETY_CONFIG", "")
    monkeypatch.setenv("MOIETY_SYSTEM_DIR", str(tmp_path / "system"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "user"))
    for name in ("MOIETY_DIR", "MOIETY_AGENT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def serving(folder: Path) -> None:
    folder.mkdir()
    (folder / "control.sock").touch()


def test_it_is_ones_own_where_no_agent_serves_everybody(places: Path) -> None:
    assert find() == Directory(places / "user" / "moiety")
    serving(places / "system")
    assert find() == Directory(places / "system", shared=True)
    (places / "system" / "control.sock").unlink()  # as one that ended in order does
    assert find() == Directory(places / "user" / "moiety")


def test_whoever_names_one_gets_that_one(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("system") == system() == Directory(places / "system", shared=True)
    serving(places / "system")
    assert not find("own").shared
    monkeypatch.setenv("MOIETY_DIR", str(places / "mine"))
    assert find() == Directory(places / "mine")
    monkeypatch.setenv("MOIETY_AGENT", "system")
    assert find().shared
    assert not find("own").shared  # as --agent own does
    monkeypatch.setenv("MOIETY_AGENT", "yours")
    with pytest.raises(BadSetting, match="none of auto, own, system"):
        find()


def test_a_file_says_it_too(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving(places / "system")
    (places / "config.toml").write_text('[cli]\nagent = "own"\n')
    monkeypatch.setenv("MOIETY_CONFIG", str(places / "config.toml"))
    assert not find().shared


@pytest.mark.parametrize(("shared", "mode"), [(False, 0o700), (True, 0o711)])
def test_nobody_looks_around_in_it(places: Path, shared: bool, mode: int) -> None:
    directory = Directory(places / "d", shared=shared)
    before = os.umask(0o077)
    try:
        prepare(directory)
        os.chmod(directory.path, 0o777)
        prepare(directory)
    finally:
        os.umask(before)
    for path in (directory.path, directory.workloads):
        assert stat.S_IMODE(path.stat().st_mode) == mode
