"""What a node tells its agent of the guarantees of namespaces, and when."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control import protocol
from moiety.kube.namespace_guarantees import LOOK_S, NamespaceGuarantees
from moiety.kube.namespace_limits import LimitRefusal, NamespaceLimits
from moiety.model.errors import NoAgent


class Machine:
    """A ConfigMap, an agent, and what happened to them."""

    def __init__(self, **texts: str) -> None:
        self.texts, self.now_s, self.is_away = texts, 100.0, False
        self.told: list[dict[str, float]] = []
        self.logged: list[str] = []
        guard: Any = SimpleNamespace(guaranteed=self._guaranteed)
        line: Any = SimpleNamespace(ask=self._ask)
        log: Any = SimpleNamespace(error=self._error)
        self.guarantees = NamespaceGuarantees(guard, line, log, lambda: self.now_s)

    async def _guaranteed(self) -> dict[str, float]:
        return NamespaceLimits(self.texts).guaranteed()

    async def _ask(self, request: protocol.GuaranteeNamespaces, answer: Any) -> None:
        if self.is_away:
            raise NoAgent("here")
        self.told.append(request.parts)

    def _error(self, _: str, *, problem: str, hint: str) -> None:
        assert hint
        self.logged.append(problem)

    def tell(self, pid: int = 1) -> None:
        asyncio.run(self.guarantees.tell(pid))


def test_the_agent_is_told_once_and_each_new_agent_again() -> None:
    machine = Machine(team="guaranteed: 30%", other="priority: low")
    machine.tell()
    machine.tell()
    assert machine.told == [{"team": 0.3}]
    machine.tell(pid=2)
    assert len(machine.told) == 2


def test_nothing_is_said_where_nothing_is_guaranteed() -> None:
    machine = Machine()
    machine.tell()
    assert machine.told == []


def test_a_change_is_seen_after_a_while_and_what_is_taken_back_too() -> None:
    machine = Machine(team="guaranteed: 30%")
    machine.tell()
    machine.texts = {}
    machine.tell()
    assert len(machine.told) == 1
    machine.now_s += LOOK_S
    machine.tell()
    assert machine.told[-1] == {}


def test_more_than_there_is_changes_nothing_and_is_logged_once() -> None:
    machine = Machine(team="guaranteed: 30%")
    machine.tell()
    machine.texts = {"team": "guaranteed: 0.7", "other": "guaranteed: 0.6"}
    for _ in range(2):
        machine.now_s += LOOK_S
        machine.tell()
    assert len(machine.told) == 1
    assert len(machine.logged) == 1
    assert "130 % of each GPU together" in machine.logged[0]
    assert "team 70 %" in machine.logged[0]


def test_an_agent_that_does_not_answer_is_told_later() -> None:
    machine = Machine(team="guaranteed: 30%")
    machine.is_away = True
    machine.tell()
    machine.is_away = False
    machine.tell()
    assert machine.told == [{"team": 0.3}]


def test_a_guarantee_is_for_one_namespace_and_makes_no_rule_of_others() -> None:
    limits = NamespaceLimits({"_defaults": "guaranteed: 0.1"})
    assert "guaranteed is for one namespace" in limits.problems[0]
    with pytest.raises(LimitRefusal):
        NamespaceLimits({"a": "guaranteed: 1", "b": "guaranteed: 1%"}).guaranteed()
    assert NamespaceLimits({"a": "guaranteed: 2"}).guaranteed() == {}
