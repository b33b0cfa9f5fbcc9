"""What users, groups and namespaces are guaranteed comes first, and is lent while they are idle."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter.admission.guarantees import Promised
from moiety.arbiter.schedule.parts import fill
from moiety.arbiter.state.promise import Guarantees
from moiety.model.share import Priority, Share
from tests.support.owners import FITS, FITS_NOT, Owners


def guaranteed(card: Owners, parts: dict[str, float], **groups: tuple[float, str]) -> Owners:
    """These parts of the card are guaranteed from now on; a group's owners are single letters."""
    named = {name: (part, tuple(owners)) for name, (part, owners) in groups.items()}
    card.tell(ev.GuaranteesSet(parts, named))
    return card


@pytest.mark.parametrize(
    ("floors", "expected"),
    [
        ([0.0, 0.0], [0.5, 0.5]),
        ([0.6, 0.0], [0.6, 0.4]),
        ([0.6, 0.3], [0.6, 0.4]),
        ([0.5, 0.3, 0.0], [0.5, 0.3, 0.2]),
        ([0.8, 0.8], [0.5, 0.5]),
        ([1.0, 0.0], [0.98, 0.02]),
        ([0.7, 0.5, 0.0], [0.98 * 7 / 12, 0.98 * 5 / 12, 0.02]),
    ],
)
def test_floors_raise_equal_parts(floors: list[float], expected: list[float]) -> None:
    assert fill([1] * len(floors), floors, 1.0) == pytest.approx(expected)


# What is received


@pytest.mark.parametrize("bytes_each", [FITS, FITS_NOT], ids=["fits", "fits not"])
def test_an_owner_gets_what_it_is_guaranteed_however_many_others_there_are(bytes_each: int) -> None:
    card = guaranteed(Owners(bytes_each), {"a": 0.6})
    for owner in ("a", "b", "b", "c"):
        card.start(owner, owner)
    card.run(10)
    found = card.by_owner(20 if bytes_each == FITS else 400)
    assert found == pytest.approx({"a": 0.6, "b": 0.2, "c": 0.2}, abs=0.03)


@pytest.mark.parametrize("bytes_each", [FITS, FITS_NOT], ids=["fits", "fits not"])
def test_an_owner_without_a_guarantee_starves_not_where_all_is_guaranteed(bytes_each: int) -> None:
    card = guaranteed(Owners(bytes_each), {"a": 0.6, "c": 0.4})
    for owner in ("a", "c", "b", "b"):
        card.start(owner, owner)
    card.run(10)
    found = card.by_owner(20 if bytes_each == FITS else 400)
    assert found == pytest.approx({"a": 0.588, "c": 0.392, "b": 0.02}, abs=0.03)
    assert found["b"] > 0


def test_an_owner_without_a_guarantee_comes_where_the_rest_is_requested() -> None:
    card = guaranteed(Owners(FITS), {"a": 0.5})
    for owner, share in (("c", Share(gpu=0.5)), ("a", Share()), ("b", Share())):
        card.start(owner, owner, share)
    card.run(10)
    assert card.by_owner(20) == pytest.approx({"c": 0.5, "a": 0.49, "b": 0.01}, abs=0.03)


def test_a_guarantee_below_an_equal_part_takes_nothing_away() -> None:
    card = guaranteed(Owners(FITS, [("a", "1"), ("b", "2")]), {"a": 0.1})
    card.run(2)
    assert card.by_owner(20) == pytest.approx({"a": 0.5, "b": 0.5}, abs=0.02)


def test_it_is_divided_among_the_owners_programs() -> None:
    card = guaranteed(Owners(FITS, [("a", "1"), ("a", "1"), ("a", "2"), ("b", "3")]), {"a": 0.8})
    card.run(2)
    assert card.parts(20) == pytest.approx([0.2, 0.2, 0.4, 0.2], abs=0.03)


def test_what_is_guaranteed_is_lent_while_its_owner_is_idle() -> None:
    card = guaranteed(Owners(FITS, [("a", "1"), ("b", "2")]), {"a": 0.7})
    card.run(2)
    card.nap(1, 20)
    assert card.by_owner(19)["b"] > 0.97
    card.run(2)
    assert card.by_owner(20)["a"] == pytest.approx(0.7, abs=0.03)


def test_a_group_as_a_whole_is_guaranteed_a_part() -> None:
    card = Owners(FITS, [(owner, owner) for owner in "abcde"])
    guaranteed(card, {}, students=(0.7, "ab"))
    card.run(2)
    found = card.by_owner(20)
    assert found["a"] + found["b"] == pytest.approx(0.7, abs=0.03)
    assert found["a"] == pytest.approx(found["b"], abs=0.03)
    assert found["c"] == pytest.approx(0.1, abs=0.02)


def test_a_user_in_a_group_has_its_own_guarantee_within_it() -> None:
    card = Owners(FITS, [(owner, owner) for owner in "abc"])
    guaranteed(card, {"a": 0.6}, students=(0.8, "ab"))
    card.run(2)
    assert card.by_owner(20) == pytest.approx({"a": 0.6, "b": 0.2, "c": 0.2}, abs=0.03)


def test_requests_count_within_what_their_owner_is_guaranteed() -> None:
    card = guaranteed(Owners(FITS), {"a": 0.5})
    card.start("a", "1", Share(gpu=0.3))
    card.start("a", "2")
    for n in range(4):
        card.start(f"b{n}", "3")
    card.run(2)
    assert card.parts(20)[:2] == pytest.approx([0.3, 0.2], abs=0.03)


def test_it_comes_before_the_classes_of_others() -> None:
    card = guaranteed(Owners(FITS), {"a": 0.4})
    card.start("a", "1")
    card.start("b", "2", Share(priority=Priority.HIGH))
    card.run(30)
    assert card.by_owner(60)["a"] == pytest.approx(0.4, abs=0.04)


def test_a_change_counts_at_once() -> None:
    card = Owners(FITS, [("a", "1"), ("b", "2")])
    card.run(5)
    guaranteed(card, {"a": 0.8})
    card.run(1)
    assert card.by_owner(5)["a"] == pytest.approx(0.8, abs=0.03)
    guaranteed(card, {})
    card.run(2)
    before = card.revokes
    assert card.by_owner(5)["a"] == pytest.approx(0.5, abs=0.03)
    assert card.revokes == before


# What can be promised beside it


def test_what_others_are_guaranteed_cannot_be_requested_also_while_they_are_away() -> None:
    card = guaranteed(Owners(FITS), {"a": 0.3})
    refused = card.arbiter.refuse_share(0, Share(gpu=0.8), owner="b")
    assert refused is not None
    text, possible = refused
    assert "30 % of it are promised to others" in text
    assert possible.gpu == pytest.approx(0.7)
    assert card.arbiter.refuse_share(0, Share(gpu=0.7), owner="b") is None


def test_no_program_is_refused_for_its_own_owners_guarantee() -> None:
    card = guaranteed(Owners(FITS), {"a": 0.3})
    card.start("b", "1", Share(gpu=0.7))
    assert card.arbiter.refuse_share(0, Share(gpu=0.3), owner="a") is None
    assert card.arbiter.refuse_share(0, Share(gpu=0.31), owner="a") is not None
    card.start("a", "2", Share(gpu=0.2))
    assert card.arbiter.refuse_share(0, Share(gpu=0.1), owner="a") is None
    assert card.arbiter.refuse_share(0, Share(gpu=0.11), owner="a") is not None


def test_what_is_promised_to_programs_that_have_not_come_is_their_owners() -> None:
    card = guaranteed(Owners(FITS), {"a": 0.5})
    beside = Promised({"a": 0.4})
    assert card.arbiter.refuse_share(0, Share(gpu=0.1), beside, owner="a") is None
    assert card.arbiter.refuse_share(0, Share(gpu=0.5), beside, owner="b") is None
    assert card.arbiter.refuse_share(0, Share(gpu=0.6), beside, owner="b") is not None


def test_a_program_may_request_what_its_group_is_guaranteed() -> None:
    card = guaranteed(Owners(FITS), {}, students=(0.6, "ab"))
    card.start("c", "1", Share(gpu=0.4))
    assert card.arbiter.refuse_share(0, Share(gpu=0.6), owner="a") is None
    card.start("b", "2", Share(gpu=0.5))
    assert card.arbiter.refuse_share(0, Share(gpu=0.1), owner="a") is None
    assert card.arbiter.refuse_share(0, Share(gpu=0.2), owner="a") is not None


def test_a_request_beyond_new_guarantees_keeps_others_out_and_not_their_owner() -> None:
    card = Owners(FITS)
    card.start("b", "1", Share(gpu=0.9))
    guaranteed(card, {"a": 0.3})
    assert card.arbiter.refuse_share(0, Share(gpu=0.3), owner="a") is None
    assert card.arbiter.refuse_share(0, Share(gpu=0.1), owner="c") is not None


def test_guarantees_of_a_group_and_its_members_are_reserved_once() -> None:
    found = Guarantees({"a": 0.2}, {"students": (0.5, ("a", "b"))})
    assert found.reserved({}) == pytest.approx(0.5)
    assert found.reserved({"a": 0.4, "b": 0.2}) == pytest.approx(0.6)
    assert found.reserved({}, present=["c"]) == 0.0
