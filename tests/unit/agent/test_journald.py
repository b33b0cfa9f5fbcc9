"""Entries of the system's journal, read on a socket of the test's own."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from moiety.agent.system.journald import fields
from moiety.agent.system.logs import open_log
from moiety.config.values import LogFormat, one_of


def entry(raw: bytes) -> dict[str, str]:
    """The fields of one entry, by the format's description."""
    found = {}
    while raw:
        line, _, rest = raw.partition(b"\n")
        if b"=" in line:
            name, _, value = line.partition(b"=")
        else:
            (size,) = struct.unpack("<Q", rest[:8])
            name, value, rest = line, rest[8 : 8 + size], rest[8 + size + 1 :]
        found[name.decode()] = value.decode()
        raw = rest
    return found


def test_an_entry_has_a_sentence_a_level_and_each_key(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "journal"))
        sock.settimeout(10)
        log = open_log(
            tmp_path / "log",
            also_stderr=False,
            form=LogFormat.JOURNAL,
            journal=tmp_path / "journal",
        )
        log.warning("connection_dropped", client="train.py (pid 7)", tenant=3)
        found = entry(sock.recv(1 << 16))
    assert found["MESSAGE"] == 'connection_dropped  client="train.py (pid 7)" tenant=3'
    assert found["PRIORITY"] == "4"
    assert found["SYSLOG_IDENTIFIER"] == "moiety"
    assert (found["MOIETY_CLIENT"], found["MOIETY_TENANT"]) == ("train.py (pid 7)", "3")
    assert not (tmp_path / "log").exists()


def test_what_programs_call_themselves_cannot_forge_a_field() -> None:
    found = entry(fields({"event": "joined", "client": "x\nPRIORITY=0\n_UID=0"}, "joined x"))
    assert found["MOIETY_CLIENT"] == "x\nPRIORITY=0\n_UID=0"
    assert found["PRIORITY"] == "6"
    assert "_UID" not in found


def test_an_entry_has_an_end() -> None:
    assert len(fields({"event": "joined", "client": "x" * 100_000}, "joined")) < 5000


def test_without_a_journal_the_level_stands_in_front(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = tmp_path / "nobody"
    log = open_log(tmp_path / "log", also_stderr=False, form=LogFormat.JOURNAL, journal=nobody)
    log.error("failed", what="x")
    assert capsys.readouterr().err == "<3>failed  what=x\n"


def test_a_format_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="'xml' is none of text, json, journal"):
        one_of(LogFormat, "FORM").parse("xml")
