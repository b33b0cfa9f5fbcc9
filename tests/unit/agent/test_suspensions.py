"""Who may suspend which workload, and what becomes of its record and its promises."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from moiety.agent.control import protocol
from moiety.agent.control.shares import Shares
from moiety.agent.control.suspensions import Suspensions, on_resume, on_suspend
from moiety.agent.core.journal import Journal
from moiety.agent.system.processes import Peer
from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.config.values import Visible
from moiety.model.errors import NotAllowed, ShareTaken, WorkloadUnknown
from moiety.model.share import Share
from tests.unit.agent.test_cards import Machine

OWNER, OTHER = Peer(1, 1, 1), Peer(2, 12345, 12345)
ADMIN = Peer(1, os.getuid(), 0)


def part(**values: Any) -> Any:
    """A part of an agent, as far as it is needed."""
    return SimpleNamespace(**values)


class Agent:
    """One workload of user 1 with a process on a GPU, and what the arbiter is told of it."""

    def __init__(self, share: Share | None = None) -> None:
        self.machine = Machine("A100")
        self.machine.run(share)
        (self.workload,) = self.machine.workloads.by_id.values()
        self.workload.clients.add(7)
        self.told: list[ev.Event] = []
        self.lines: list[str] = []
        write = lambda what, **_: self.lines.append(what)  # noqa: E731
        runtime = part(feed=self.told.append, log=part(info=write), now=lambda: 0.0)
        self.said: list[bytes] = []
        self.machine.clients[7] = self.client = part(
            number=7, pid=42, program="p", workload="0", uid=1, labels={}, gpus={0}, unspoken=set(),
            talks=True, connection=SimpleNamespace(send=self.said.append),
        )  # fmt: skip
        self.disk_is_full = False
        workloads: Any = self.machine.workloads
        workloads.rewrite = self.rewrite
        arbiter: Any = self.machine.arbiter
        self.registry = part(by_number=self.machine.clients, on_joined=[], on_forgotten=[])
        self.executor = part(on_suspended=[])
        shares = Shares(
            runtime, self.machine.clients, self.machine.gpus, arbiter, Journal(), workloads,
            self.machine.cards,
        )  # fmt: skip
        self.journal = shares.journal
        self.suspensions = Suspensions(runtime, self.registry, self.executor, shares)
        self.suspensions.visible_to = lambda _: Visible.ALL

    def rewrite(self, workload: Any, record: Any) -> None:
        workload.record = record
        if self.disk_is_full:
            raise OSError("no room")

    def suspend(self, peer: Peer = OWNER) -> protocol.WorkloadSuspended:
        asked = protocol.SuspendWorkload("7")
        return asyncio.run(on_suspend(self, asked, peer))

    def resume(self, peer: Peer = OWNER) -> protocol.WorkloadResumed:
        return asyncio.run(on_resume(self, protocol.ResumeWorkload("7"), peer))


@pytest.mark.parametrize("peer", [OWNER, ADMIN])
def test_its_user_and_an_administrator_may(peer: Peer) -> None:
    agent = Agent()
    assert not agent.suspend(peer).is_over
    assert agent.told == [ev.Suspend(7)]
    assert agent.workload.record.suspended
    agent.executor.on_suspended[0](agent.client, do.Suspended(7, 0))
    assert agent.suspend(peer).is_over
    assert agent.resume(peer).was_suspended
    assert agent.told == [ev.Suspend(7), ev.Resume(7)]
    assert not agent.workload.record.suspended
    assert agent.lines == ["suspend", "resume"]
    assert [event.reason for event in agent.journal.ring] == ["Suspended", "Resumed"]
    assert len(agent.said) == 2, "its terminal says so"
    assert b"suspended by" in agent.said[0]
    assert b"resumed" in agent.said[1]


def test_no_other_user_may() -> None:
    agent = Agent()
    for does in (agent.suspend, agent.resume):
        with pytest.raises(NotAllowed):
            does(OTHER)
    agent.suspensions.visible_to = lambda _: Visible.NOTHING
    with pytest.raises(WorkloadUnknown):
        agent.suspend(OTHER)
    assert agent.told == []


def test_a_second_word_changes_nothing() -> None:
    agent = Agent()
    agent.suspend()
    agent.suspend()
    agent.resume()
    assert not agent.resume().was_suspended
    assert agent.told == [ev.Suspend(7), ev.Resume(7)]


def test_nothing_is_suspended_that_cannot_be_written_down() -> None:
    agent = Agent()
    agent.disk_is_full = True
    with pytest.raises(OSError, match="no room"):
        agent.suspend()
    assert agent.told == []
    assert not agent.workload.record.suspended


def test_a_process_that_comes_later_is_suspended() -> None:
    agent = Agent()
    agent.registry.on_joined[0](agent.client)
    assert agent.told == []
    agent.suspend()
    agent.registry.on_joined[0](agent.client)
    assert agent.told == [ev.Suspend(7), ev.Suspend(7)]


def test_its_promises_are_free_meanwhile_and_are_asked_for_again() -> None:
    agent = Agent(Share(gpu=0.6))
    agent.client.gpus.clear()  # the agent keeps the GPU for it
    with pytest.raises(ShareTaken):
        agent.machine.run(Share(gpu=0.6))
    agent.suspend()
    agent.machine.run(Share(gpu=0.6))
    with pytest.raises(ShareTaken, match="60 % of it are promised to others"):
        agent.resume()
    assert agent.workload.record.suspended
    assert agent.told == [ev.Suspend(7)]


def test_a_record_of_an_older_agent_is_not_suspended() -> None:
    agent = Agent()
    document = msgspec.to_builtins(agent.workload.record)
    del document["suspended"]
    assert not msgspec.convert(document, type(agent.workload.record)).suspended
