"""Records come back as they were put in, the oldest go first, and none takes memory of its own."""

from __future__ import annotations

import sys

import pytest

from moiety.agent.core.ring_buffer import BYTES_MAX, KINDS, SampleRecord, Samples, SpanRecord, Spans
from moiety.agent.core.timeline import KINDS as OF_STAYS


def span(number: int) -> SpanRecord:
    return (
        KINDS[number % len(KINDS)],
        number,
        number % 3,
        number / 3,
        number / 2,
        number << 32,
        "",
    )


def test_what_was_put_in_comes_back() -> None:
    spans, samples = Spans(100), Samples(100)
    put = [span(number) for number in range(60)] + [("refused", 9, 0, 0.1, 0.1, 0, "no: 7 GiB")]
    for record in put:
        spans.append(record)
        samples.append(record[4], record[1], record[2], record[5])
    assert list(spans) == put
    assert list(samples) == [(end_s, who, gpu, much) for _, who, gpu, _, end_s, much, _ in put]


def test_the_oldest_go() -> None:
    spans, samples = Spans(8), Samples(8)
    for number in range(21):
        spans.append(span(number))
        samples.append(float(number), number, 0, 1)
        kept = range(max(0, number - 7), number + 1)
        assert list(spans) == [span(each) for each in kept]
        assert [sample[1] for sample in samples] == [*kept]
        assert (spans.first, spans.seen) == (kept.start, kept.stop)


def test_it_is_read_like_a_list() -> None:
    samples = Samples(4)
    records: list[SampleRecord] = []
    for number in range(6):
        samples.append(float(number), 1, 0, 2)
        records = [*records, (float(number), 1, 0, 2)][-4:]
    assert samples[0] == records[0]
    assert samples[-1] == records[-1]
    assert samples[1:3] == records[1:3]
    assert samples[2:100] == records[2:]
    assert samples[7:] == []
    for beyond in (4, -5):
        with pytest.raises(IndexError):
            samples[beyond]


def test_one_that_is_dropped_takes_its_sentence_along() -> None:
    spans = Spans(4)
    sentence = f"more than {id(spans)} B"
    before = sys.getrefcount(sentence)
    for number in range(3):
        spans.append(("refused", number, 0, 1.0, float(number), 0, sentence))
    assert sys.getrefcount(sentence) == before + 3, "it is not copied"
    spans.drop_oldest()
    assert (len(spans), spans.oldest_end_s) == (2, 1.0)
    for number in range(4):
        spans.append(span(number))
    assert sys.getrefcount(sentence) == before
    assert list(spans) == [span(number) for number in range(4)]


def test_more_bytes_than_there_can_be_are_no_error() -> None:
    spans, samples = Spans(2), Samples(2)
    spans.append(("evicting", 1, 0, 1.0, 2.0, 1 << 70, ""))
    samples.append(1.0, 1, 0, 1 << 64)
    assert (spans[0][5], samples[0][3]) == (BYTES_MAX, BYTES_MAX)


def test_every_kind_of_a_stay_is_known() -> None:
    assert set(OF_STAYS.values()) <= set(KINDS)
