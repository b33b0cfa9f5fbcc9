"""What the arbiter is told of the guarantees of users, groups and namespaces."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from moiety.agent.control.commands import ControlCommands
from moiety.agent.control.options import Options
from moiety.agent.control.owner_guarantees import OwnerGuarantees
from moiety.agent.core.journal import Journal
from moiety.agent.system.users import User
from moiety.arbiter import events as ev
from moiety.config.guarantees import GuaranteeRules
from moiety.model.errors import BadArgument

NAMES = {
    1000: User(1000, "alice", frozenset({"students", "people"})),
    1001: User(1001, "bob", frozenset({"students"})),
    1002: User(1002, "carol", frozenset()),
}


class Agent:
    """Workloads of users, and what the arbiter was told."""

    def __init__(self, users: dict[str, float], groups: dict[str, float] | None = None) -> None:
        self.told: list[ev.GuaranteesSet] = []
        workloads: Any = SimpleNamespace(by_id={}, on_owner=[])
        self.workloads = workloads
        runtime: Any = SimpleNamespace(feed=self.told.append)
        names: Any = SimpleNamespace(of=lambda uid: NAMES.get(uid, User(uid, str(uid))))
        rules = GuaranteeRules(users, groups or {})
        self.guarantees = OwnerGuarantees(runtime, workloads, rules, names)

    def start(self, uid: int) -> None:
        self.workloads.by_id[len(self.workloads.by_id)] = SimpleNamespace(account=uid)
        for call in self.workloads.on_owner:
            call(uid)


def test_a_users_part_is_kept_before_the_user_is_known() -> None:
    agent = Agent({"alice": 0.3})
    (told,) = agent.told
    assert list(told.parts.values()) == [0.3]
    assert "user 1000" not in told.parts
    agent.start(1000)
    assert agent.told[-1].parts == {"user 1000": 0.3}


def test_a_file_that_promises_what_namespaces_are_guaranteed_is_refused() -> None:
    agent = Agent({"alice": 0.3})
    agent.guarantees.set_namespaces({"team": 0.6})
    agent.guarantees.check(GuaranteeRules({"alice": 0.4}, {}))
    with pytest.raises(BadArgument, match="namespaces are guaranteed 60 %"):
        agent.guarantees.check(GuaranteeRules({"alice": 0.3}, {"students": 0.2}))


def test_a_reload_that_promises_too_much_changes_nothing() -> None:
    agent = Agent({"alice": 0.3})
    agent.guarantees.set_namespaces({"team": 0.6})
    rules: Any = SimpleNamespace(guaranteed=GuaranteeRules({"alice": 0.5}, {}))
    journal = Journal()
    commands: Any = SimpleNamespace(
        limits=SimpleNamespace(guarantees=agent.guarantees),
        options=None,
        journal=journal,
        runtime=SimpleNamespace(log=CapturingLogger()),
    )
    with pytest.raises(BadArgument, match="namespaces are guaranteed 60 %"):
        asyncio.run(ControlCommands._reload(commands, lambda: (Options(), rules)))
    assert [event.reason for event in journal.ring] == ["ReloadRefused"]
    assert set(agent.told[-1].parts.values()) == {0.3, 0.6}


def test_a_user_may_be_named_by_number() -> None:
    agent = Agent({"1002": 0.3})
    agent.start(1002)
    assert agent.told[-1].parts == {"user 1002": 0.3}


def test_a_group_has_its_members_that_have_workloads_and_each_is_in_one() -> None:
    agent = Agent({}, {"students": 0.2, "people": 0.3})
    for uid in NAMES:
        agent.start(uid)
    assert agent.told[-1].groups == {
        "people": (0.3, ("user 1000",)),
        "students": (0.2, ("user 1001",)),
    }


def test_a_users_first_program_is_its_own_also_while_it_asks() -> None:
    agent = Agent({"alice": 0.3})
    agent.guarantees.asks(1000)
    assert agent.told[-1].parts == {"user 1000": 0.3}
    agent.guarantees.asks(1001)
    assert "user 1000" not in agent.told[-1].parts, "it came to nothing"


def test_nothing_is_told_twice_and_nothing_where_there_is_no_rule() -> None:
    agent = Agent({})
    agent.start(1000)
    assert not agent.told
    agent = Agent({"alice": 0.3})
    agent.start(1000)
    agent.start(1000)
    assert len(agent.told) == 2


def test_other_rules_count_from_then_on() -> None:
    agent = Agent({"alice": 0.3})
    agent.guarantees.replace(GuaranteeRules({}, {"students": 0.5}))
    assert agent.told[-1] == ev.GuaranteesSet({}, {"students": (0.5, ())})
    agent.guarantees.replace(GuaranteeRules())
    assert agent.told[-1] == ev.GuaranteesSet({})


def test_namespaces_are_guaranteed_parts_beside_users() -> None:
    agent = Agent({"1000": 0.3})
    agent.guarantees.set_namespaces({"team": 0.7})
    assert agent.told[-1].parts["namespace team"] == 0.7
    assert agent.guarantees.names() == {"user 1000": 0.3, "namespace team": 0.7}
    with pytest.raises(BadArgument, match="80 % of each GPU together: 70 % are left"):
        agent.guarantees.set_namespaces({"team": 0.8})
    assert agent.told[-1].parts["namespace team"] == 0.7
