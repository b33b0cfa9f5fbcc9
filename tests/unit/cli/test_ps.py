"""The options of `moiety ps` that choose, order and repeat."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from moiety.agent.control.protocol import Processes
from moiety.cli import ps as module
from moiety.model.errors import UserUnknown
from tests.unit.top.test_rows import row

ROWS = [row(1, user="ann", uid=7, gpu=0), row(1, user="ann", uid=7, gpu=1), row(2, user="bob")]


def shown(monkeypatch: pytest.MonkeyPatch, *arguments: str, looks: int = 1) -> str:
    answers = [Processes(ROWS)] * looks
    passed: list[float] = []

    def ask(*, is_all: bool) -> Processes | None:
        assert is_all is ("-a" in arguments)
        return answers.pop() if answers else None

    monkeypatch.setattr(module, "_ask", ask)
    monkeypatch.setattr("time.sleep", passed.append)
    done = CliRunner().invoke(module.ps, arguments)
    assert done.exit_code == 0, done.output
    assert passed == [module.WATCH_S] * (looks if "-w" in arguments else 0)
    return done.output


def test_quiet_tells_each_tenant_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, "-q") == "1\n2\n"
    assert shown(monkeypatch, "-q", "--user", "bob") == "2\n"
    assert shown(monkeypatch, "-q", "--sort", "pid") == "1\n2\n"
    assert shown(monkeypatch, "-q", "--user", "root") == ""
    assert shown(monkeypatch, "-q", "--user", "4242") == ""


def test_a_user_that_is_nowhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ask", lambda **_: Processes(ROWS))
    for arguments in (["-q"], ["-o", "json"], ["-w"], []):
        done = CliRunner().invoke(module.ps, [*arguments, "--user", "no-such-user"])
        assert isinstance(done.exception, UserUnknown), arguments
        assert done.exception.exit_code == 66
        assert "no-such-user" in done.exception.what
        assert "moiety ps -a" in done.exception.hint


def test_who_is_no_tenant_has_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROWS", [row(0, pid=9, user="ann", state="outside")])
    assert shown(monkeypatch, "-a", "-q") == ""
    titles, line = shown(monkeypatch, "-a").splitlines()
    assert titles.split()[:4] == ["TENANT", "PID", "USER", "PROGRAM"]
    assert line.split()[:4] == ["-", "9", "ann", "train"]


def test_watch_shows_it_again_until_the_agent_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, "-w", looks=2)
    assert text.count("TENANT") == 2
    assert text.endswith("no agent is running, so no GPU is shared\n")
