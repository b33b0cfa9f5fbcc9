"""Tables, sizes and times as they are printed."""

from __future__ import annotations

import pytest

from moiety.cli.output import Size, count, fold, seconds, size, table
from moiety.model.errors import InvalidSize


def test_text_stands_left_and_numbers_stand_right() -> None:
    found = table(["NAME", "SIZE", "WHY"], [["a", "1 GiB", ""], ["longer", "-", "because"]])
    assert found.splitlines() == [
        "NAME     SIZE  WHY",
        "a       1 GiB",
        "longer      -  because",
    ]


def test_an_empty_table_is_its_titles() -> None:
    assert table(["A", "B"], []) == "A  B"


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (None, "-"),
        (0, "0 s"),
        (0.0002, "0 s"),
        (0.0634, "63 ms"),
        (2.04, "2 s"),
        (75, "1 min 15 s"),
    ],
)
def test_times_are_as_exact_as_a_reader_needs(amount: float | None, shown: str) -> None:
    assert seconds(amount) == shown


def test_amounts() -> None:
    assert size(None) == "-"
    assert size(3 << 30) == "3 GiB"
    assert count(1, "GPU") == "1 GPU"
    assert count(0, "GPU") == "0 GPUs"


def test_a_size_option_takes_units_and_no_nothing() -> None:
    assert Size().convert("20GiB", None, None) == 20 << 30
    assert Size().convert(5, None, None) == 5
    with pytest.raises(InvalidSize, match="no memory at all"):
        Size().convert("0", None, None)


ROWS = [["1", "train", "12 GiB", "it waits for tenant 2"]]
TITLES = ["TENANT", "PROGRAM", "EVICTED", "WHY"]


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr("moiety.cli.output.terminal_width", lambda: width)
    monkeypatch.setenv("NO_COLOR", "1")


def test_a_narrow_terminal_gets_fewer_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table(TITLES, ROWS, ["EVICTED", "PROGRAM"]).splitlines()
    assert whole[0].split() == TITLES
    widest = max(map(len, whole))
    on_a_terminal(monkeypatch, widest)
    assert table(TITLES, ROWS, ["EVICTED", "PROGRAM"]).splitlines() == whole
    on_a_terminal(monkeypatch, widest - 1)
    shown = table(TITLES, ROWS, ["EVICTED", "PROGRAM"]).splitlines()
    assert shown[0].split() == ["TENANT", "PROGRAM", "WHY"]
    assert shown[1].split() == ["1", "train", *["it", "waits", "for", "tenant", "2"]]
    on_a_terminal(monkeypatch, 10)
    assert table(TITLES, ROWS, ["EVICTED", "PROGRAM"]).split()[:2] == ["TENANT", "WHY"]


def test_a_long_line_is_folded_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "ok  driver  everything that sharing needs is there, and a-word-with-hyphens too"
    assert fold(text, 12) == text
    on_a_terminal(monkeypatch, 40)
    lines = fold(text, 12).splitlines()
    assert max(map(len, lines)) <= 40
    assert all(line.startswith(" " * 12) for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == text.replace("  ", " ").replace(
        "ok driver ", "ok  driver  "
    )
    on_a_terminal(monkeypatch, 20)
    assert fold(text, 12) == text
