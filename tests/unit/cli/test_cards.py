"""The GPUs of `moiety run`: what is asked for, and what the program sees."""

from __future__ import annotations

import pytest

from moiety.agent.control.rows import CardName
from moiety.cli.cards import VISIBLE, mig_part, requested, sentence, with_cards
from moiety.model.cards import CardRequest
from moiety.model.errors import BadArgument

CARDS = [CardName(2, "GPU-aa02", "A100"), CardName(3, "GPU-aa03", "A100")]


def ask(environment: str | None = None, *indices: str, count: int | None = None) -> object:
    variables = {} if environment is None else {VISIBLE: environment}
    return requested(count, indices, None, exclusive=False, environment=variables)


def test_without_any_word_one_gpu_is_asked_for() -> None:
    assert ask() == CardRequest()
    assert ask(count=3) == CardRequest(3)


def test_the_environment_narrows_the_choice_and_an_option_counts_for_more() -> None:
    assert ask("2,3") == CardRequest(0, ("2", "3"))
    assert ask("2,3", count=1) == CardRequest(1, ("2", "3"))
    assert ask("2,3", "0,1") == CardRequest(0, ("0", "1"))


def test_an_environment_that_hides_all_gpus_asks_for_none() -> None:
    assert ask("") is None
    assert ask("-1") is None


def test_a_part_of_a_gpu_is_the_drivers_to_find() -> None:
    assert ask("MIG-2eb5,GPU-2") is None
    assert mig_part({VISIBLE: " MIG-2eb5,GPU-2"}) == "MIG-2eb5"
    assert mig_part({VISIBLE: "GPU-2,MIG-2eb5"}) == mig_part({}) == ""
    for options in (("0", None), (None, 1)):
        with pytest.raises(BadArgument) as refused:
            ask("MIG-2eb5", *("MIG-2eb5" for named in options[:1] if named), count=options[1])
        assert "MIG-2eb5 is a part of a GPU" in refused.value.what
        assert "CUDA_VISIBLE_DEVICES=MIG-2eb5 without options" in refused.value.hint


def test_options_that_name_nothing_are_refused() -> None:
    with pytest.raises(BadArgument):
        ask(count=0)
    with pytest.raises(BadArgument):
        ask(None, ",")


def test_a_program_sees_its_gpus_in_the_order_in_which_they_were_named() -> None:
    before = {VISIBLE: "3,2", "HOME": "/"}
    assert with_cards(before, CARDS, ("3", "GPU-AA02"))[VISIBLE] == "1,0"
    assert with_cards({VISIBLE: "2,3", "HOME": "/"}, CARDS, ("2", "3")) == {"HOME": "/"}
    assert with_cards({}, CARDS, ()) == {}
    assert with_cards(before, [], ("3",)) == before


def test_the_sentence_names_the_cards() -> None:
    assert sentence(CARDS) == "it gets GPUs 2, 3 (A100)"
    assert sentence(CARDS[:1]) == "it gets GPU 2 (A100)"
