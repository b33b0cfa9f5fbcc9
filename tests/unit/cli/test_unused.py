"""What the doctor says of programs that hold what they do not use."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control.rows import ProcessRow
from moiety.cli.doctor import checks
from moiety.cli.doctor.unused import unused
from moiety.model.share import Share
from tests.unit.top.test_rows import row

GIB = 1 << 30
BIG = row(3, share=Share(memory_limit_bytes=20 * GIB), peak_bytes=6 * GIB, received_s=61.0)


def told(rows: Sequence[ProcessRow]) -> list[tuple[str, str, str]]:
    return [(f.about, f.level, f.text) for f in unused(rows)]


def test_a_program_that_asks_too_much_is_a_warning_with_what_to_type() -> None:
    (found,) = unused([BIG])
    assert (found.about, found.level) == ("programs", "warn")
    assert found.text == "train (3) asks 20 GiB, never used more than 6 GiB"
    assert found.hint.startswith("`moiety set 3 --memory-limit SIZE`")


def test_a_gpu_is_idle_if_all_on_it_are() -> None:
    idle = row(1, idle_s=3600.0, allocated_bytes=2 * GIB, residue_bytes=GIB)
    less = row(2, idle_s=700.4, allocated_bytes=GIB)
    shown = "2 programs on it have done nothing there for 11 min 40 s, with 4 GiB of memory"
    assert told([idle, less]) == [("GPU 0", "warn", shown)]
    assert told([idle, row(2, idle_s=599.0)]) == []
    assert told([idle, row(2, gpu=1)])[0][2].startswith("1 program on it has done nothing")
    assert told([row(2, gpu=None, idle_s=3600.0)]) == []


def test_the_doctor_asks_the_agent_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def talk(_: object) -> Any:
        yield SimpleNamespace(ask=lambda *_: SimpleNamespace(rows=[BIG]))

    monkeypatch.setattr(checks, "talk", talk)
    assert "never used more than 6 GiB" in next(f.text for f in checks.programs())
