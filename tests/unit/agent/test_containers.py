"""Shares for containers: who may say whose pod they are, and how much text they have."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control import protocol
from moiety.agent.control.containers import ContainerShares
from moiety.agent.system.processes import Peer
from moiety.model.errors import BadRequest, NotAllowed

LABELS = {"namespace": "team", "pod": "train-0", "container": "main"}
ROOT, ALICE = Peer(10, os.getuid(), 0), Peer(11, 4321, 4321)


class Made:
    """Where shares are made; `records` are those that were."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        workloads: Any = SimpleNamespace(by_id={}, create_container=self._create)
        shares: Any = SimpleNamespace(check=lambda *_: None)
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
