from __future__ import annotations

import pytest

from moiety.kube import resize
from moiety.kube.model import names
from moiety.kube.resize import InvalidResize
from moiety.model.share import Priority, Share

NOW = Share(gpu=0.5, gpu_limit=0.8, memory_bytes=20 << 30, memory_limit_bytes=40 << 30)


def wanted(text: str, now: Share = NOW, container: str = "train") -> Share:
    return resize.wanted({names.RESIZE: text}, container, now)


def test_without_the_annotation_a_share_stays() -> None:
    assert resize.wanted({}, "train", NOW) == NOW


def test_what_is_named_changes_and_the_rest_stays() -> None:
    assert wanted("gpu=0.6") == Share(
        gpu=0.6, gpu_limit=0.8, memory_bytes=20 << 30, memory_limit_bytes=40 << 30
    )
    assert wanted("memory=10Gi memory-limit=none priority=high latency=true") == Share(
        gpu=0.5, gpu_limit=0.8, memory_bytes=10 << 30, priority=Priority.HIGH, latency=True
    )
    assert wanted("gpu=none gpu-limit=none memory=none memory-limit=none") == Share()


def test_reading_it_again_changes_nothing_more() -> None:
    once = wanted("gpu=0.6 memory=10Gi")
    assert wanted("gpu=0.6 memory=10Gi", once) == once


def test_a_container_that_is_named_counts_for_more() -> None:
    text = "gpu=0.3 train:gpu=0.7 other:memory=1Gi"
    assert wanted(text).gpu == 0.7
    assert wanted(text, container="other").gpu == 0.3
    assert wanted(text).memory_bytes == NOW.memory_bytes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "says nothing"),
        ("gpu", "is no WORD=VALUE"),
        ("gpu=", "is no WORD=VALUE"),
        ("gpus=1", "there is no 'gpus'; did you mean gpu?"),
        ("gpu=1.7", "more than one GPU"),
        ("gpu=0.6 gpu=0.7", "stands twice"),
        ("gpu=0.9", "cannot be guaranteed"),
        ("memory=20GiB", "did you mean Gi?"),
        ("memory=50Gi", "cannot be kept"),
        ("priority=urgent", "there is no priority"),
        ("latency=maybe", "neither true nor false"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidResize) as caught:
        wanted(text)
    assert said in caught.value.what


def test_what_a_command_writes_is_what_is_read() -> None:
    assert wanted(resize.written({"gpu": "0.6", "memory": "1Gi"})).memory_bytes == 1 << 30
    assert resize.written({"gpu": "0.6"}, "train") == "train:gpu=0.6"
    with pytest.raises(InvalidResize):
        resize.written({"gpu": "6"})
