from __future__ import annotations

import pytest

from moiety.model.errors import InvalidGang
from moiety.model.gang import SIZE_MAX, Gang, of_options


def test_two_options_make_a_gang_and_none_makes_none() -> None:
    assert of_options(None, None) is None
    assert of_options("train-7", None) == Gang("train-7")
    assert of_options("train-7", 4) == Gang("train-7", 4)


@pytest.mark.parametrize(("name", "size"), [(None, 2), ("a", 0), ("a", SIZE_MAX + 1), ("a b", 2)])
def test_options_that_name_no_gang_are_refused(name: str | None, size: int) -> None:
    with pytest.raises(InvalidGang):
        of_options(name, size)


def test_a_gang_takes_as_many_members_as_it_has() -> None:
    Gang("a", 2).check_beside(2, 1)
    Gang("a").check_beside(0, 100)
    with pytest.raises(InvalidGang, match="2 members already"):
        Gang("a", 2).check_beside(0, 2)
    with pytest.raises(InvalidGang, match="has 3 members, not 2"):
        Gang("a", 2).check_beside(3, 0)
