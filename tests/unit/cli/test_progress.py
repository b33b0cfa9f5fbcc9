from __future__ import annotations

import pytest

from moiety.cli.sim.progress import bar


def test_where_nobody_looks_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with bar(10, "jobs") as step:
        step(3)
    assert capsys.readouterr().err == ""
