"""Shares of a claim are there together, or none of them is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moiety.kube.checkpoint import CLAIM, Assignment, Slot
from moiety.model.errors import MoietyError, NoAgent
from moiety.model.share import Share
from tests.support.kube_shares import UUIDS, manager


def share(number: int) -> Assignment:
    slot = Slot("gpu-0", UUIDS[0], 30.0, request=f"r{number}")
    return Assignment(f"k8s-c-{number}", CLAIM, "c", [slot], Share(gpu=0.3), request=f"r{number}")


def test_a_claim_that_could_be_neither_made_nor_taken_back_is_not_there_in_part(
    tmp_path: Path,
) -> None:
    shares, agent = manager(tmp_path)
    both = [share(0), share(1)]
    away = [("CreateContainer", "k8s-c-1"), ("RemoveContainer", "k8s-c-0")]

    def fail(kind: str, name: str) -> MoietyError | None:
        if (kind, name) in away:
            away.remove((kind, name))
            return NoAgent(str(tmp_path))
        return None

    agent.fail = fail

    async def story() -> None:
        with pytest.raises(NoAgent):
            await shares.give(both)
        assert away == []
        # The kubelet asks once more, and has both or none of the claim.
        known = shares.ledger.checkpoint.of_claim("c")
        await shares.make_sure(known)
        assert [each.request for each in known] == ["r0", "r1"]
        assert set(agent.rows) == {"k8s-c-0", "k8s-c-1"}

    asyncio.run(story())


def test_a_claim_that_was_taken_back_in_part_can_be_prepared_again(tmp_path: Path) -> None:
    shares, agent = manager(tmp_path)

    async def story() -> None:
        await shares.give([share(0), share(1)])
        agent.fail = lambda kind, name: (
            NoAgent(str(tmp_path)) if (kind, name) == ("RemoveContainer", "k8s-c-1") else None
        )
        with pytest.raises(NoAgent):
            await shares.take_back(["k8s-c-0", "k8s-c-1"])
        known = shares.ledger.checkpoint.of_claim("c")
        await shares.make_sure(known)
        assert set(agent.rows) == {"k8s-c-0", "k8s-c-1"}
        agent.fail = lambda *_: None
        await shares.take_back(["k8s-c-0", "k8s-c-1"])
        assert (shares.assignments, agent.rows) == ({}, {})

    asyncio.run(story())
