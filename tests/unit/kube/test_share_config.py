from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.kube.model import share_config
from moiety.kube.model.share_config import API_VERSION, KIND, InvalidShareConfig, decode, encode
from moiety.model.share import Mode, Priority, Share

HEAD = {"apiVersion": API_VERSION, "kind": KIND}


def test_all_that_a_share_says_is_read() -> None:
    document = HEAD | {
        "gpu": {"request": "500m", "limit": "0.75"},
        "memory": {"request": "20Gi", "limit": "40Gi"},
        "priority": "high",
        "latency": True,
        "mode": "swap",
    }
    assert decode(json.dumps(document).encode()) == Share(
        gpu=0.5,
        gpu_limit=0.75,
        memory_bytes=20 << 30,
        memory_limit_bytes=40 << 30,
        priority=Priority.HIGH,
        latency=True,
    )


def test_what_is_left_out_is_what_a_share_says_by_itself() -> None:
    assert decode(HEAD) == Share()


def test_numbers_may_stand_without_quotes() -> None:
    share = decode(HEAD | {"gpu": {"request": 0.1, "limit": 1}, "memory": {"request": 1024}})
    assert share == Share(gpu=0.1, memory_bytes=1024)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"kind": KIND}, "apiVersion"),
        ({"apiVersion": "v1", "kind": KIND}, "knows only resource.moiety.dev/v1alpha1"),
        (HEAD | {"kind": "GpuConfig"}, "knows only"),
        (HEAD | {"gpus": 1}, "gpus"),
        (HEAD | {"gpu": "0.5"}, "$.gpu"),
        (HEAD | {"gpu": {"requests": "0.5"}}, "requests"),
        (HEAD | {"gpu": {"request": "1.7"}}, "gpu.request: '1.7' is more than one GPU"),
        (HEAD | {"gpu": {"request": "0"}}, "must be above 0"),
        (HEAD | {"gpu": {"request": "-1"}}, "must be above 0"),
        (HEAD | {"gpu": {"request": "0.5", "limit": "0.3"}}, "cannot be guaranteed"),
        (HEAD | {"gpu": {"request": True}}, "$.gpu.request"),
        (HEAD | {"memory": {"request": "20GiB"}}, "memory.request: '20GiB' has the unit GiB"),
        (HEAD | {"memory": {"request": "2Gi", "limit": "1Gi"}}, "cannot be kept"),
        (HEAD | {"memory": {"limit": "-1"}}, "is negative"),
        (HEAD | {"priority": "urgent"}, "there is no priority 'urgent'; one of low, normal, high"),
        (HEAD | {"mode": "paged"}, "there is no mode 'paged'"),
        (HEAD | {"mode": "managed", "memory": {"request": "1Gi"}}, "managed mode"),
        (HEAD | {"latency": "yes"}, "$.latency"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(document: Any, said: str) -> None:
    with pytest.raises(InvalidShareConfig) as caught:
        decode(document)
    assert said in caught.value.what
    with pytest.raises(InvalidShareConfig):
        decode(json.dumps(document))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff", b"0"])
def test_what_is_no_document_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidShareConfig):
        decode(text)


def parts() -> st.SearchStrategy[float]:
    return st.integers(min_value=1, max_value=1000).map(lambda thousandths: thousandths / 1000)


@st.composite
def shares(draw: st.DrawFn) -> Share:
    gpu = draw(st.none() | parts())
    mode = draw(st.sampled_from(Mode))
    memory = draw(st.integers(min_value=0, max_value=1 << 50)) if mode is Mode.SWAP else 0
    more = draw(st.none() | st.integers(min_value=0, max_value=1 << 50))
    return Share(
        gpu=gpu,
        gpu_limit=max(draw(parts()), gpu or 0),
        memory_bytes=memory,
        memory_limit_bytes=None if more is None else memory + more,
        priority=draw(st.sampled_from(Priority)),
        latency=draw(st.booleans()),
        mode=mode,
    )


@given(shares())
def test_a_share_survives_being_written_and_read(share: Share) -> None:
    assert decode(encode(share)) == share
    assert decode(json.dumps(encode(share))) == share


def test_the_names_are_those_of_driver_and_api() -> None:
    assert share_config.DRIVER == "gpu.moiety.dev"
    assert HEAD == {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig"}
