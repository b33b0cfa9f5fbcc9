"""Lines of WORD: VALUE, which people write into ConfigMaps."""

from __future__ import annotations

import pytest

from moiety.kube.model.key_values import key_values
from moiety.model.errors import InvalidValue


def test_words_and_values_without_comments_spaces_and_quotes() -> None:
    text = "\n# of the team\n gpu : 4\nmodel: \"A100: large\"\ngpu:'5'\n"
    assert list(key_values(text)) == [("gpu", "4"), ("model", "A100: large"), ("gpu", "5")]


@pytest.mark.parametrize("line", ["gpu", "gpu:", "gpu: ''"])
def test_a_line_of_another_form_is_named(line: str) -> None:
    with pytest.raises(InvalidValue, match=f"{line!r} is no WORD: VALUE"):
        list(key_values(line))
