"""Guarantees that cannot all be kept are refused when the file is read, with what to change."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from moiety.agent.control.limits import LimitRules
from moiety.cli.main import moiety
from moiety.config.files import read
from moiety.config.guarantees import GuaranteeRules
from moiety.config.load import Config, load
from moiety.config.places import Kind
from moiety.model.errors import BadSetting


def written(folder: Path, text: str) -> Config:
    path = folder / "config.toml"
    path.write_text(text)
    file = read(path, Kind.SYSTEM)
    assert file
    return load({}, files=[file])


def test_users_and_groups_are_guaranteed_parts(tmp_path: Path) -> None:
    text = '[users.alice]\nguaranteed = "30%"\n[groups.students]\nguaranteed = 0.7\ngpu = 0.2\n'
    found = GuaranteeRules.of(written(tmp_path, text))
    assert (found.users, found.groups) == ({"alice": 0.3}, {"students": 0.7})


def test_more_than_there_is_is_refused_with_what_to_change(tmp_path: Path) -> None:
    text = "[users.alice]\nguaranteed = 0.6\n[users.bob]\nguaranteed = 0.3\n"
    text += "[groups.students]\nguaranteed = 0.2\n"
    with pytest.raises(BadSetting) as raised:
        LimitRules(written(tmp_path, text))
    assert "config.toml:6" in raised.value.what
    assert "users and groups are guaranteed 110 % of each GPU together" in raised.value.what
    assert "users.alice.guaranteed = 60 %" in raised.value.hint
    assert "groups.students.guaranteed = 20 %" in raised.value.hint


def test_more_than_a_users_limit_is_refused(tmp_path: Path) -> None:
    text = "[users.alice]\ngpu = 0.5\nguaranteed = 0.6\n"
    with pytest.raises(BadSetting, match="alice may have 50 % of a GPU at most"):
        GuaranteeRules.of(written(tmp_path, text))


def test_it_is_for_users_and_groups_that_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="guaranteed"):
        written(tmp_path, "[defaults]\nguaranteed = 0.1\n")


def test_config_check_says_so(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[users.root]\nguaranteed = 0.6\n[groups.root]\nguaranteed = 0.5\n")
    done = CliRunner().invoke(moiety, ["config", "check", str(path)])
    assert done.exit_code == BadSetting.exit_code
    assert "110 % of each GPU" in done.stderr
