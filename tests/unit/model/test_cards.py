"""Which GPUs a workload asks for, as options and the environment name them."""

from __future__ import annotations

import pytest

from moiety.model.cards import CardRequest, of_environment, split
from moiety.model.errors import BadArgument

UUIDS = {0: "GPU-aa00", 1: "GPU-aa01", 3: "GPU-bb00"}


def test_names_are_indices_and_beginnings_of_uuids() -> None:
    assert CardRequest(named=("3", "GPU-AA01")).find(UUIDS) == [3, 1]
    assert CardRequest(named=("1", "1")).find(UUIDS) == [1]


@pytest.mark.parametrize(("name", "said"), [("2", "is no GPU"), ("GPU-a", "means several")])
def test_a_name_means_one_gpu(name: str, said: str) -> None:
    with pytest.raises(BadArgument, match=said):
        CardRequest(named=(name,)).find(UUIDS)


@pytest.mark.parametrize(
    "words",
    [
        {"count": -1},
        {"count": 65},
        {"named": ("x",)},
        {"named": ("0",), "count": 2},
        {"model": "x" * 65},
        {"named": ("0",) * 65},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(words: dict[str, object]) -> None:
    with pytest.raises(BadArgument):
        CardRequest(**words)  # type: ignore[arg-type]


def test_options_may_be_lists() -> None:
    assert split(("0, 1", "3,")) == ("0", "1", "3")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, ()),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("2,3", ("2", "3")),
        ("GPU-2eb5, 1", ("GPU-2eb5", "1")),
        ("1,-1,2", ("1",)),
    ],
)
def test_the_environment_is_read_up_to_the_first_word_that_names_no_gpu(
    text: str | None, names: tuple[str, ...]
) -> None:
    assert of_environment(text) == names
