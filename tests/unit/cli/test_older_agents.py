"""What `moiety run` does for agents that were started before a feature was made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control import protocol
from moiety.cli.run import have, whole_gpus
from moiety.model.errors import AgentVersion, ShareTaken
from moiety.model.share import Share

GIB = 1 << 30


def call(*features: str) -> Any:
    """A conversation with an agent of two GPUs that does these things."""
    gpus = [SimpleNamespace(capacity_bytes=size * GIB) for size in (80, 40)]
    here = protocol.Here("1", 1, 1, features=list(features))
    return SimpleNamespace(agent=here, ask=lambda *_: SimpleNamespace(gpus=gpus))


def test_the_share_of_whole_gpus_is_worked_out_for_an_older_agent() -> None:
    share = Share(memory_limit_bytes=60 * GIB)
    found = whole_gpus(share, call())
    assert (found.gpu, found.gpu_limit, found.memory_bytes) == (1.0, 1.0, 40 * GIB)
    assert whole_gpus(share, call(*protocol.FEATURES)) == share


def test_an_older_agent_has_no_queue() -> None:
    asked = protocol.CreateWorkload("a.out", [], "/", wait=True)
    with pytest.raises(AgentVersion) as refused:
        have(asked, call(), quiet=True)
    assert "moiety agent restart" in refused.value.hint


@pytest.mark.parametrize("features", [(), protocol.FEATURES])
def test_a_refusal_names_the_queue_where_there_is_one(features: tuple[str, ...]) -> None:
    def refuse(*_: object) -> None:
        raise ShareTaken("no GPU can keep that", "--gpu 0.4 fits")

    agent = call(*features)
    agent.ask = refuse
    with pytest.raises(ShareTaken) as refused:
        have(protocol.CreateWorkload("a.out", [], "/"), agent, quiet=True)
    assert refused.value.hint == "--wait waits for room; " * bool(features) + "--gpu 0.4 fits"


def test_an_older_agent_says_no_features() -> None:
    line = b'{"is": "here", "product": "0.1", "wire": 1, "pid": 2}'
    answer = protocol.decode_answer(line)
    assert isinstance(answer, protocol.Here)
    assert answer.features == []
