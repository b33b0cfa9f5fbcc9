"""The configuration is read again: what is not for the next agent only counts at once."""

from __future__ import annotations

import asyncio
import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control.commands import ControlCommands
from moiety.agent.control.configuration import LIVE
from moiety.agent.control.limits import LimitRules
from moiety.agent.control.options import Options
from moiety.agent.control.saved_settings import SavedSettings
from moiety.arbiter.settings import Settings
from moiety.config.values import Visible

BEFORE = Options(system=True, pool_uid=991, linger_s=5.0)


def reloaded(after: Options) -> tuple[Options, list[str]]:
    """The options of an agent that reads others, and those that are for the next agent only."""
    it: Any = SimpleNamespace(
        options=BEFORE,
        limits=None,
        changed=SavedSettings(),
        settings=SimpleNamespace(now=Settings(arena_bytes=1), change=lambda _: None),
        reports=SimpleNamespace(monitor=None),
        runtime=SimpleNamespace(log=SimpleNamespace(info=lambda *_, **__: None)),
        journal=SimpleNamespace(note=lambda *_: None),
        _retry=lambda: None,
    )
    answer = asyncio.run(ControlCommands._reload(it, lambda: (after, LimitRules())))
    return it.options, answer.later


@pytest.mark.parametrize(
    "changes",
    [
        {"pool_uid": None},
        {"pool_uid": 992},
        {"visible": Visible.NOTHING},
        {"settings": {"turn_min_s": 0.2}, "filed": frozenset({"turn_min_s"})},
    ],
)
def test_what_can_change_while_the_agent_runs_does(changes: dict[str, Any]) -> None:
    assert changes.keys() <= LIVE
    after = dataclasses.replace(BEFORE, **changes)
    assert reloaded(after) == (after, [])


def test_what_cannot_is_named_and_stays() -> None:
    assert reloaded(dataclasses.replace(BEFORE, linger_s=1.0)) == (BEFORE, ["linger"])
