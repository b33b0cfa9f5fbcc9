"""The unit of a machine's pool: as systemd reads it, and as the commands are."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from moiety.pool.machine.systemd_unit import unit


def parsed(text: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(text)
    return found


def test_it_brings_the_pool_of_all_users_up_and_ends_no_workload() -> None:
    found = parsed(unit(environment=[("MOIETY_CONFIG", "/a b")]))
    service = found["Service"]
    assert shlex.split(service["ExecStart"])[1:] == ["-m", "moiety", "up"]
    assert shlex.split(service["ExecStop"])[1:] == ["-m", "moiety", "down"]
    assert 'Environment="MOIETY_CONFIG=/a b"' in unit(environment=[("MOIETY_CONFIG", "/a b")])
    assert service["KillMode"] == "process"
    assert (service["Slice"], service["Delegate"]) == ("moiety.slice", "yes")
    assert service["DelegateSubgroup"] == "starter", "as moiety.pool.machine.cgroups expects it"
    assert "User" not in service, "root starts both; the server gets its account"
    assert "moiety.service" in found["Unit"]["Requires"]


def test_users_programs_are_not_confined() -> None:
    service = parsed(unit())["Service"]
    for key in ("NoNewPrivileges", "ProtectSystem", "PrivateTmp", "MemoryMax"):
        assert key not in service


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    (tmp_path / "moiety.service").write_text("[Service]\nExecStart=/bin/true\n")
    path = tmp_path / "moiety-pool.service"
    path.write_text(unit())
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    told = [line for line in done.stderr.splitlines() if "moiety-pool" in line]
    assert [line for line in told if "DelegateSubgroup" not in line] == [], done.stderr
