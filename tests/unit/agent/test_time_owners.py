"""Whose time a program uses, by its socket and by what an administrator says of its share."""

from __future__ import annotations

import socket
from random import Random

import pytest

from moiety.agent.core.time_owners import owner_of
from moiety.agent.shim.session import Session
from moiety.agent.system.processes import Peer
from moiety.arbiter.settings import Settings
from moiety.model.share import NOTHING_ASKED
from moiety.wire.messages import HelloMessage
from tests.support.virtual_agent import World


def test_a_users_programs_use_the_users_time() -> None:
    assert owner_of(1000, {}) == owner_of(1000, {"pod": "p"}) != owner_of(1001, {})


def test_pods_use_the_time_of_their_namespace_whoever_made_their_shares() -> None:
    assert owner_of(0, {"namespace": "a"}) == owner_of(7, {"namespace": "a"})
    assert owner_of(0, {"namespace": "a"}) != owner_of(0, {"namespace": "b"})
    assert owner_of(0, {"namespace": "a"}) != owner_of(0, {})


@pytest.mark.parametrize(
    ("labels", "owner"), [({}, "user 1000"), ({"namespace": "team"}, "namespace team")]
)
def test_the_arbiter_hears_whose_share_a_process_has(labels: dict[str, str], owner: str) -> None:
    with World(Random(1), Settings(1000, turn_factor=0.0, revoke_deadline_s=1.0)) as here:
        agent = here.start_agent()
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        Session(
            agent.sessions,
            theirs,
            peer=Peer(here.begin_liar(), 1001, 1001),
            workload="the share",
            share=NOTHING_ASKED,
            owner=1000,
            labels=labels,
        )
        with ours:
            ours.send(HelloMessage(program="it").encode())
            here.until_rest(1)
            (tenant,) = agent.arbiter._context.ledger.tenants.values()
        assert (tenant.owner, tenant.workload) == (owner, "the share")
