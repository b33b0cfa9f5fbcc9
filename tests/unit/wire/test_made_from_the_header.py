"""The Python side of the protocol and its page are what the header says."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import wire
from tools.wire_header import read, source

TEXT = source(wire.HEADERS)


@pytest.mark.parametrize(
    "file", [wire.LAYOUT, wire.MESSAGES, wire.PAGE], ids=lambda file: file.name
)
def test_a_made_file_is_as_the_generator_makes_it(file: Path) -> None:
    assert file.read_text() == wire.made(read(TEXT))[file], "run python tools/wire.py"


def test_every_message_is_on_the_page_with_its_number() -> None:
    page = wire.page(read(TEXT))
    for each in read(TEXT).types:
        assert f"| {each.value} | `{each.name}` |" in page
    assert "### mw_header\n" in page
    assert "| `epoch` | `uint32_t` |" in page


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("    uint32_t word;", "    uint32_t\n        word;", "mw_lease: a field stands on"),
        ("/* > mw_hello: the", "/* the", "MW_HELLO: the comment above"),
        ("/* > mw_free: bytes were", "/* > mw_gone: bytes were", "structs that it does not have"),
    ],
)
def test_a_header_that_leaves_its_form_is_refused(before: str, after: str, said: str) -> None:
    assert before in TEXT
    with pytest.raises(ValueError, match=said):
        read(TEXT.replace(before, after))
