"""Who asks for more than it ever used, and who is not named."""

from __future__ import annotations

from moiety.cli.oversized import hints, oversized
from moiety.model.share import Share
from tests.unit.top.test_rows import row

GIB = 1 << 30


def test_a_program_that_worked_and_used_little_is_named() -> None:
    share = Share(memory_limit_bytes=20 * GIB)
    much = row(3, share=share, peak_bytes=6 * GIB, received_s=61.0)
    (found,) = oversized([much])
    assert found.text == "train (3) asks 20 GiB, never used more than 6 GiB"
    (said,) = hints([much, row(4)])
    assert "train (3) asks 20 GiB" in said
    assert "`moiety set 3 --memory-limit SIZE`" in said
    kept = row(5, share=Share(memory_bytes=8 * GIB), peak_bytes=0, received_s=61.0)
    assert "--memory SIZE" in hints([kept])[0]


def test_others_are_not() -> None:
    share = Share(memory_limit_bytes=20 * GIB)
    assert not oversized([row(share=share, peak_bytes=6 * GIB, received_s=59.0)]), "too early"
    assert not oversized([row(share=share, peak_bytes=11 * GIB, received_s=61.0)])
    assert not oversized([row(share=share, gpu=None, received_s=61.0)])
    assert not oversized([row(peak_bytes=1, received_s=61.0)]), "it asks for nothing"
