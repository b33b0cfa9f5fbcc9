"""Every field of the protocol has a row that says what bounds it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tools.wire_fields import problems, rows, senders
from tools.wire_header import Field, read, source

WIRE = Path(__file__).resolve().parents[3] / "native" / "wire"
HEADER = read(source(WIRE))


def test_every_field_has_a_row_and_every_row_a_field() -> None:
    assert problems(HEADER, rows(WIRE)) == []


def test_a_field_without_a_row_is_named() -> None:
    hello = HEADER.structs["mw_hello"]
    more = replace(hello, fields=(*hello.fields, Field("uint32_t", "mood", "", "")))
    header = replace(HEADER, structs=HEADER.structs | {"mw_hello": more})
    assert problems(header, rows(WIRE)) == ["HELLO.mood has no row"]


def test_a_row_without_a_field_and_a_second_row_are_named() -> None:
    (row, *_) = [row for row in rows(WIRE) if "HELLO" in row.about]
    found = [*rows(WIRE), replace(row, fields=("mood",)), row]
    assert problems(HEADER, found) == [
        "there is no HELLO.mood",
        *(f"HELLO.{field} has 2 rows" for field in row.fields),
    ]


def test_the_sender_is_who_the_header_says() -> None:
    by_message = {row.about[0]: senders(HEADER, row) for row in rows(WIRE)}
    assert by_message["HELLO"] == by_message["FREE"] == "client"
    assert by_message["WELCOME"] == by_message["MODE"] == "agent"
    assert by_message["ARENA"] == by_message["*"] == "both"
    assert by_message["mw_lease"] == "the agent writes it"


def test_a_line_that_is_no_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fields.txt").write_text("HELLO | flags | nothing\n")
    with pytest.raises(ValueError, match="no row"):
        rows(tmp_path)
