"""The unit file."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from moiety.agent.system.systemd_unit import unit
from moiety.model.errors import ExitCode


def parsed(text: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(text)
    return found


def test_it_starts_an_agent_for_all_users_that_says_when_it_is_ready() -> None:
    service = parsed(unit(["--metrics", "9402"]))["Service"]
    assert service["Type"] == "notify"
    command = shlex.split(service["ExecStart"])
    assert command[1:7] == ["-m", "moiety", "agent", "start", "--foreground", "--system"]
    assert command[-2:] == ["--metrics", "9402"]
    assert "User" not in service


def test_it_is_not_started_again_for_what_only_people_can_put_right() -> None:
    service = parsed(unit())["Service"]
    codes = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert codes == {ExitCode.USAGE, ExitCode.CONFIGURATION}


def test_an_agent_with_a_user_of_its_own_has_no_other_rights() -> None:
    service = parsed(unit(user="moiety"))["Service"]
    assert service["User"] == "moiety"
    assert "CAP_KILL" in service["AmbientCapabilities"]
    assert "CAP_DAC_OVERRIDE" not in service["CapabilityBoundingSet"]


def test_percent_signs_are_not_taken_for_specifiers() -> None:
    text = unit(["--gpu", "50%"], environment=[("A", "1%")])
    assert "50%%" in text
    assert 'Environment="A=1%%"' in text


def test_words_are_quoted_for_systemd_which_is_no_shell() -> None:
    words = ["--watch-exempt", "command:$HOME,user:a b", "it's", 'say "x"', "back\\slash"]
    text = unit(words, environment=[("MOIETY_CONFIG", '/a "b"\nUser=eve')])
    assert (
        '--watch-exempt "command:$$HOME,user:a b" "it\'s" "say \\"x\\"" "back\\\\slash"\n' in text
    )
    assert 'Environment="MOIETY_CONFIG=/a \\"b\\"\\nUser=eve"\n' in text
    assert "\nUser=" not in text


@pytest.mark.parametrize("user", ["", "a b", "a\nUser=root", "%i", "-x", "x" * 40])
def test_what_is_no_name_is_no_user(user: str) -> None:
    with pytest.raises(ValueError, match="no name of a user"):
        unit(user=user)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
@pytest.mark.parametrize("user", [None, "daemon"])
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path, user: str | None) -> None:
    path = tmp_path / "moiety.service"
    path.write_text(unit(user=user))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True
    )
    assert "moiety.service" not in done.stderr
    path.write_text(unit(user=user).replace("WatchdogSec=30", "WatchdogSec=3x"))
    again = subprocess.run(done.args, capture_output=True, text=True)
    assert "moiety.service" in again.stderr, "what is wrong would have been found"
