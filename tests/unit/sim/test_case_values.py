from __future__ import annotations

import math
from typing import Any

import pytest

from moiety.sim.case_values import BadCase, amount, as_object, number, text


def test_values_are_read_and_absent_ones_have_their_default() -> None:
    row = as_object({"name": "a", "gpus": 2, "limit": None}, "tasks[0]")
    assert text(row, "name", "tasks[0]") == "a"
    assert number(row, "gpus", "tasks[0]") == 2
    assert number(row, "created", "tasks[0]", 7) == 7
    assert amount(row, "limit", "tasks[0]") is None
    assert amount(row, "gpus", "tasks[0]", 1000) == 2000


@pytest.mark.parametrize("value", [-1, math.nan, 1e16, True, "2", None])
def test_what_is_no_number_is_refused_with_its_place(value: Any) -> None:
    with pytest.raises(BadCase) as refused:
        number({"gpus": value}, "gpus", "tasks[3]")
    assert refused.value.key == "tasks[3].gpus"


def test_a_name_and_an_object_have_to_be_such() -> None:
    with pytest.raises(BadCase, match="not a name"):
        text({"name": ""}, "name", "queues[0]")
    with pytest.raises(BadCase, match="not an object"):
        as_object([], "queues")
