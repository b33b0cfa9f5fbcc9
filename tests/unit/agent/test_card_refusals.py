"""Why cards cannot keep a share, in words that name what they could keep."""

from __future__ import annotations

from moiety.agent.control.card_refusals import CardRefusal, taken
from moiety.model.share import Share

GIB = 1 << 30
WANTED = Share(gpu=0.6, memory_bytes=8 * GIB)
LITTLE = CardRefusal(0, "90 % of GPU 0 are promised", Share(gpu=0.1, memory_bytes=8 * GIB))
MORE = CardRefusal(1, "60 % of GPU 1 are promised", Share(gpu=0.4, memory_bytes=4 * GIB))


def test_the_nearest_share_is_that_of_the_card_with_most_left() -> None:
    error = taken(WANTED, 2, 1, [LITTLE, MORE])
    assert error.what == (
        "1 of 3 GPUs can keep that, and 2 must; the nearest: 60 % of GPU 1 are promised"
    )
    assert error.hint.startswith(
        "--gpu 0.4 --memory 4096MiB fits on GPU 1, which has 40 % and 4 GiB left"
    )


def test_of_one_card_only_its_own_reason_is_told() -> None:
    assert taken(WANTED, 1, 0, [LITTLE]).what == LITTLE.text


def test_where_nothing_is_left_there_is_no_nearest() -> None:
    none = CardRefusal(0, "all of GPU 0 is promised", Share())
    assert taken(Share(gpu=0.6), 1, 0, [none]).hint.startswith("no guarantee, or less for others")
