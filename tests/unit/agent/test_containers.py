"""Shares for containers: who may say whose pod they are, and how much text they have."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control import protocol
from moiety.agent.control.containers import ContainerShares
from moiety.agent.system.processes import Peer
from moiety.arbiter import events as ev
from moiety.model.cards import CardRequest
from moiety.model.errors import BadArgument, BadRequest, NotAllowed, ShareTaken
from moiety.model.share import Share
from tests.unit.agent.test_creation import Agent

LABELS = {"namespace": "team", "pod": "train-0", "container": "main"}
ROOT, ALICE = Peer(10, os.getuid(), 0), Peer(11, 4321, 4321)


class Made:
    """Where shares are made; `records` are those that were."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        workloads: Any = SimpleNamespace(by_id={}, create_container=self._create)
        shares: Any = SimpleNamespace(check=lambda *_: None, cards=None)
        runtime: Any = SimpleNamespace(log=SimpleNamespace(info=lambda *_, **__: None))
        self.shares = ContainerShares(runtime, {}, workloads, shares)

    def _create(self, record: Any, owner: Peer) -> Any:
        del owner
        self.records.append(record)
        return SimpleNamespace(record=record, clients=set(), folder="/run/moiety/c/train")

    def ask(self, peer: Peer, **words: Any) -> None:
        self.shares.create(protocol.CreateContainer("train", **words), peer)


def test_an_administrator_names_the_pod() -> None:
    made = Made()
    made.ask(ROOT, labels=LABELS, pods=[f"{n:036}" for n in range(256)])
    assert made.records[0].labels == LABELS


def test_no_other_user_names_a_pod() -> None:
    made = Made()
    with pytest.raises(NotAllowed, match="administrator"):
        made.ask(ALICE, labels=LABELS)
    made.ask(ALICE)
    assert made.records[0].labels == {}


@pytest.mark.parametrize(
    "words",
    [
        {"labels": {"pod": "x" * (256 << 10)}},
        {"labels": {str(n): "" for n in range(1000)}},
        {"pods": ["x"] * 10_000},
        {"gpus": ["x" * 100_000]},
        {"spec": "x" * 100_000},
    ],
)
def test_the_text_of_a_share_is_bounded(words: dict[str, Any]) -> None:
    made = Made()
    with pytest.raises(BadRequest, match="characters"):
        made.ask(ROOT, **words)
    assert not made.records


class Chosen:
    """Four GPUs of which a share for containers gets some; `uuids` are theirs."""

    def __init__(self, gpus: int = 4) -> None:
        self.agent = Agent(*["A100"] * gpus)
        known: Any = self.agent.workloads
        runtime: Any = None
        self.shares = ContainerShares(runtime, {}, known, self.agent.shares)
        self.uuids = [gpu.device.uuid for gpu in self.agent.machine.gpus.values()]

    def ask(
        self, cards: CardRequest | None, *gpus: int, only: list[int] | None = None
    ) -> list[int]:
        """The indices of the GPUs that a share with this request gets, of these."""
        named = [self.uuids[at] for at in gpus]
        asked = protocol.CreateContainer("half", Share(gpu=0.5), gpus=named, cards=cards)
        found = self.shares.placed(asked, only, {}, ALICE.uid)
        return [self.uuids.index(uuid) for uuid in found.gpus]

    def has(self, *gpus: int) -> None:
        """The share exists, with these GPUs."""
        half = Share(gpu=0.5)
        named = [self.uuids[at] for at in gpus]
        record = SimpleNamespace(uid=ALICE.uid, gpus=named, share=half, promised=half)
        self.agent.workloads.by_id["half"] = SimpleNamespace(
            record=record,
            cards=record.gpus,
            clients=set(),
            is_alive=False,
            stays=True,
            began_s=0.0,
            owner="",
        )


def test_gpus_are_chosen_among_those_of_the_specification() -> None:
    chosen = Chosen()
    chosen.agent.run(Share(gpu=0.6), CardRequest(named=("2",)))
    assert chosen.ask(CardRequest(2), 2, 3, 1) == [1, 3]
    assert chosen.ask(CardRequest(2)) == [0, 1]
    assert chosen.ask(CardRequest(1), only=[2, 3]) == [3]
    assert chosen.ask(None, 2) == [2]
    assert chosen.ask(None) == []
    with pytest.raises(BadArgument, match="2 GPUs are asked for"):
        chosen.ask(CardRequest(2), 3)
    with pytest.raises(ShareTaken):
        chosen.ask(CardRequest(1), 2)


def test_of_one_gpu_no_two_are_chosen() -> None:
    chosen = Chosen(1)
    assert chosen.ask(CardRequest(1)) == [0]
    with pytest.raises(BadArgument, match="2 GPUs are asked for"):
        chosen.ask(CardRequest(2))


def test_a_gpu_of_another_machine_is_refused() -> None:
    chosen = Chosen()
    asked = protocol.CreateContainer("half", gpus=["GPU-none"], cards=CardRequest(1))
    with pytest.raises(BadRequest, match="GPU-none: not all are GPUs of this agent"):
        chosen.shares.placed(asked, None, {}, ALICE.uid)


def test_a_share_keeps_the_gpus_that_it_has() -> None:
    chosen = Chosen()
    chosen.has(2, 3)
    assert chosen.ask(CardRequest(2)) == [2, 3]
    assert chosen.ask(CardRequest(2), 1, 2, 3) == [2, 3]
    assert chosen.ask(CardRequest(2), 0, 1) == [0, 1]
    assert len(chosen.ask(CardRequest(3))) == 3


def test_a_share_that_changes_its_gpus_is_not_in_its_own_way() -> None:
    chosen = Chosen(2)
    chosen.has(0, 1)
    chosen.agent.run(Share(gpu=0.5), CardRequest(named=("0",)))
    assert chosen.ask(CardRequest(1)) == [1]
    assert chosen.ask(CardRequest(named=("0",))) == [0]


def test_what_its_user_is_guaranteed_is_there_for_it() -> None:
    chosen = Chosen(2)
    event = ev.GuaranteesSet({f"user {ALICE.uid}": 0.6}, {})
    assert not list(chosen.agent.machine.arbiter.handle(0.0, event))
    assert chosen.ask(CardRequest(2)) == [0, 1]
