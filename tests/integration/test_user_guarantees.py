"""What the system's file guarantees to users is kept for them, said, and read again on demand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.model.errors import BadSetting, ShareTaken
from moiety.model.share import Share
from moiety.testing.waiting import until
from tests.support.foreground import AgentProcess
from tests.support.system_agent import Users, conversing
from tests.support.users import ALICE, BOB, Raised, open_folder

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]

RULES = f"[users.{ALICE}]\nguaranteed = 0.3\n"
CREATE = (
    "call.ask(protocol.CreateWorkload('train', ['train'], '/', Share({share})), protocol.Created)"
    ".socket"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


@pytest.fixture
def agent(folder: Path, pretended: Path) -> Iterator[AgentProcess]:
    (folder / "config.toml").write_text(RULES)
    made = AgentProcess(folder / "s", pretended, ["--linger", "0"], system=True)
    made.environment["MOIETY_CONFIG"] = str(folder / "config.toml")
    with made as running:
        yield running


@pytest.fixture
def users(agent: AgentProcess) -> Iterator[Users]:
    with conversing(agent.directory.path) as come:
        yield come


def test_a_users_guarantee_is_kept_for_its_own_programs(agent: AgentProcess, users: Users) -> None:
    alice, bob = users(ALICE), users(BOB)
    with pytest.raises(Raised, match="30 % of it are promised to others") as refused:
        bob.do(CREATE.format(share="gpu=0.8"))
    assert refused.value.kind == "ShareTaken"
    assert "--gpu 0.7 or less" in refused.value.hint
    bob.do(f"b = Shim({CREATE.format(share='gpu=0.7')})")
    bob.do("b.hello(); b.attach(uuid_of(0))")
    # The first program of the guaranteed user is refused no part of its own guarantee,
    alice.do(f"a = Shim({CREATE.format(share='gpu=0.2')})")
    alice.do("a.hello(); a.attach(uuid_of(0))")
    # nor is the next, and no more than that is there.
    with pytest.raises(Raised, match="cannot be guaranteed"):
        alice.do(CREATE.format(share="gpu=0.2"))
    alice.do(CREATE.format(share="gpu=0.1"))
    assert {row.uid: row.guaranteed for row in agent.ps()} == {ALICE: 0.3, BOB: 0.0}
    assert agent.status().guarantees == {f"user {ALICE}": 0.3}


def test_it_is_read_again_and_more_than_there_is_is_refused(
    agent: AgentProcess, users: Users, folder: Path
) -> None:
    alice = users(ALICE)
    alice.do(f"a = Shim({CREATE.format(share='')})")
    alice.do("a.hello(); a.attach(uuid_of(0))")

    def reload(call: Call) -> None:
        call.ask(protocol.Reload(), protocol.Reloaded)

    with agent.call() as call:
        (folder / "config.toml").write_text(RULES + f"[users.{BOB}]\nguaranteed = 0.8\n")
        with pytest.raises(BadSetting, match="110 % of each GPU together"):
            reload(call)
        assert [row.guaranteed for row in agent.ps()] == [0.3]
        (folder / "config.toml").write_text(RULES.replace("0.3", "0.6"))
        reload(call)
        assert [row.guaranteed for row in agent.ps()] == [0.6]


def test_a_command_that_waits_is_refused_when_others_are_guaranteed_too_much(
    agent: AgentProcess, users: Users, folder: Path
) -> None:
    bob, waits = users(BOB), users(BOB)
    bob.do(CREATE.format(share="gpu=0.6"))
    asked = "protocol.CreateWorkload('train', ['train'], '/', Share(gpu=0.7), wait=True)"
    waits.tell(f"call.wait({asked}, lambda _: None)")
    until(lambda: agent.status().queue, "it waits")
    with agent.call() as call:
        (folder / "config.toml").write_text(RULES.replace("0.3", "0.4"))
        call.ask(protocol.Reload(), protocol.Reloaded)
    with pytest.raises(Raised, match="40 % of each are guaranteed to others") as refused:
        waits.listen()
    assert refused.value.kind == "ShareTaken"
    assert "--gpu 0.6 or less" in refused.value.hint
    assert agent.status().queue == []


def test_a_pods_share_counts_within_what_its_namespace_is_guaranteed(agent: AgentProcess) -> None:
    with agent.call() as call:
        call.ask(protocol.GuaranteeNamespaces({"team": 0.6}), protocol.Done)

        def create(name: str, namespace: str) -> None:
            labels = {"namespace": namespace}
            asked = protocol.CreateContainer(name, Share(gpu=0.5), labels=labels)
            call.ask(asked, protocol.Contained)

        with pytest.raises(ShareTaken, match="90 % of it are promised to others"):
            create("one", "other")
        create("two", "team")
    assert agent.status().guarantees == {f"user {ALICE}": 0.3, "namespace team": 0.6}
