"""Which agent is meant, and who may go through its directory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from moiety.agent.system import container_files
from moiety.agent.system.paths import ANY, Directory, find, prepare, system
from moiety.config.table import WHICH_AGENT
from moiety.model.errors import BadAgentDirectory, BadSetting


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


def test_it_is_found_without_the_settings_where_they_say_nothing() -> None:
    assert WHICH_AGENT.default == ANY


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


def usual(places: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is named by the environment; the home directory, which is ours."""
    monkeypatch.delenv("MOIETY_SYSTEM_DIR")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("MOIETY_AGENT", "own")
    home = places / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def test_what_outlives_a_restart_lies_with_the_users_state(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = usual(places, monkeypatch)
    machine = os.uname().nodename.partition(".")[0]
    directory = find()
    assert directory.path == places / "user" / "moiety"
    assert directory.state == directory.logs == home / ".local/state/moiety" / machine
    monkeypatch.setenv("XDG_STATE_HOME", str(places / "state"))
    state = places / "state/moiety" / machine
    assert directory.events == state / "events.jsonl"
    assert directory.settings == state / "settings.json"
    assert directory.log == state / "agent.log"
    assert container_files.folder(directory, "half") == state / "containers/half"
    for lock in (directory.control, directory.lock, directory.workloads):
        assert lock.parent == directory.path
    prepare(directory)
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    assert find().state == home / ".local/state/moiety" / machine
    assert find().path == Path(f"/tmp/moiety-{os.getuid()}")


def test_whoever_names_a_directory_has_everything_there(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual(places, monkeypatch)
    monkeypatch.setenv("MOIETY_DIR", str(places / "mine"))
    monkeypatch.setenv("MOIETY_SYSTEM_DIR", str(places / "all"))
    for directory in (find("own"), find("system"), Directory(places / "other")):
        assert directory.state == directory.logs == directory.path


def test_the_agent_of_all_users_has_the_systems_places(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual(places, monkeypatch)
    monkeypatch.setenv("MOIETY_DIR", str(places / "mine"))
    directory = system()
    assert (directory.path, directory.state) == (Path("/run/moiety"), Path("/var/lib/moiety"))
    assert directory.log == Path("/var/log/moiety/agent.log")
    assert container_files.root(directory) == Path("/var/lib/moiety/containers")


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
def test_nothing_is_written_into_somebody_elses_home(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = usual(places, monkeypatch)
    os.chown(home, 4711, 4711)
    directory = find()
    assert directory.state == directory.path
    prepare(directory)
    assert not list(home.iterdir())


def test_a_link_where_state_would_lie_is_refused(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual(places, monkeypatch)
    directory = find()
    directory.state.parent.mkdir(parents=True)
    (places / "elsewhere").mkdir()
    directory.state.symlink_to(places / "elsewhere")
    with pytest.raises(BadAgentDirectory, match="it is a link or a file"):
        prepare(directory)
