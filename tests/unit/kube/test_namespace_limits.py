"""What an administrator's ConfigMap allows a namespace, and what a refusal says."""

from __future__ import annotations

import pytest

from moiety.kube.namespace_limits import LimitRefusal, NamespaceLimits
from moiety.model.share import Priority, Share

GIB = 1 << 30
HIGH = Share(priority=Priority.HIGH)
FIRST = Share(latency=True)


def refusal(limits: NamespaceLimits, *wanted: Share, others: tuple[Share, ...] = ()) -> str:
    with pytest.raises(LimitRefusal) as raised:
        limits.of("team").check(wanted, others)
    assert "moiety-namespaces" in raised.value.hint
    return raised.value.what


@pytest.mark.parametrize("texts", [None, {}, {"other": "latency: true\npriority: high"}])
def test_without_a_word_a_namespace_has_no_class_no_high_priority_and_no_resizes(
    texts: dict[str, str] | None,
) -> None:
    limits = NamespaceLimits(texts)
    assert "namespace team may have no program of the latency class (" in refusal(limits, FIRST)
    assert "namespace team may have priority normal at most, not high" in refusal(limits, HIGH)
    with pytest.raises(LimitRefusal, match="may not change shares of running pods"):
        limits.of("team").check_resize()
    limits.of("team").check([Share(gpu=1.0), Share(gpu=1.0), Share(priority=Priority.LOW)])


def test_the_word_of_a_namespace_counts_for_more_than_the_defaults() -> None:
    limits = NamespaceLimits(
        {"_defaults": "resize: true\npriority: high", "team": "# few\npriority: low\nlatency: true"}
    )
    limits.of("team").check([Share(latency=True, priority=Priority.LOW)])
    limits.of("team").check_resize()
    limits.of("other").check([HIGH])
    assert "low at most, not normal (ConfigMap moiety-namespaces, team)" in refusal(limits, Share())


def test_shares_are_added_up_and_each_gpu_counts() -> None:
    limits = NamespaceLimits({"team": "gpu: 2\nmemory: 10Gi"})
    rules = limits.of("team")
    rules.check([Share(gpu=0.5)] * 2, [Share(gpu=1.0)])
    said = refusal(limits, Share(gpu=0.5), Share(gpu=0.5), others=(Share(gpu=1.0), Share(gpu=0.3)))
    assert "50 % of a GPU cannot be guaranteed to namespace team" in said
    assert "may have 200 % in all; 180 % of it are guaranteed already" in said
    rules.check([Share(memory_bytes=4 * GIB, memory_limit_bytes=40 * GIB)])
    said = refusal(limits, Share(memory_bytes=6 * GIB), others=(Share(memory_bytes=5 * GIB),))
    assert "6 GiB cannot be kept for namespace team" in said


def test_a_part_of_a_gpu_is_no_sum_of_memory() -> None:
    limits = NamespaceLimits({"team": "memory: 50%"})
    (problem,) = limits.problems
    assert "memory: '50%' is a part, and GPUs of a cluster differ" in problem
    assert "is a part" in refusal(limits, Share())


def test_nothing_may_be_promised_where_the_sum_is_zero() -> None:
    limits = NamespaceLimits({"_defaults": "gpu: 0"})
    assert "may have 0 % in all" in refusal(limits, Share(gpu=0.1))
    limits.of("team").check([Share()])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu: 2x", "gpu: '2x' has the unit x"),
        ("gpu: -1", "is negative"),
        ("latency: perhaps", "'perhaps' is neither true nor false"),
        ("priority: urgent", "urgent"),
        ("colour: red", "there is no 'colour'; there are gpu, memory, priority, latency, resize"),
        ("gpu", "'gpu' is no WORD: VALUE"),
        ("gpu: 1\ngpu: 2", "gpu stands twice"),
    ],
)
@pytest.mark.parametrize("key", ["team", "_defaults"])
def test_what_makes_no_sense_allows_nothing_and_is_said(key: str, text: str, says: str) -> None:
    limits = NamespaceLimits({key: text})
    assert f"ConfigMap moiety-namespaces, {key}: " in refusal(limits, Share())
    assert says in refusal(limits, Share())
    assert says in limits.problems[0]
    with pytest.raises(LimitRefusal):
        limits.of("team").check_resize()
    if key == "team":
        limits.of("other").check([Share(gpu=1.0)])
