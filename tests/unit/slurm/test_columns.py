"""How columns are laid out, for each of Slurm's ways to ask for them."""

from __future__ import annotations

import pytest

from moiety.slurm.show import columns
from moiety.slurm.show.columns import Column, lines

TABLE: dict[str, Column[str]] = {
    "i": Column("JOBID", lambda item: item),
    "t": Column("ST", lambda _: "R"),
}
NAMES: dict[str, Column[str]] = {
    "jobid": Column("JobID", lambda item: item, -12),
    "trespernode": Column("TRES_PER_NODE", lambda item: item * 9, 10),
}


def test_letters_have_widths_and_sides() -> None:
    refused: list[str] = []
    cells = columns.short_cells("<%.6i|%4t>%i", TABLE, refused.append)
    assert list(lines(cells, ["12"])) == ["< JOBID|ST  >JOBID", "<    12|R   >12"]
    assert list(lines(cells, ["1234567"], header=False)) == ["<123456|R   >1234567"]
    assert refused == []


@pytest.mark.parametrize(
    ("text", "shown", "told"),
    [
        ("%i %y", "JOBID %y", ["y"]),
        ("foo", "foo", []),
        (" ", " ", []),
        ("%", "", []),
        ("a%", "a", []),
        ("%i%", "JOBID", []),
        ("100%% %t", "100% ST", [" "]),
        ("%5", "%5", [""]),
        ("x%.-5t|", "x%.-5t|", ["-"]),
        ("%005 t", "%005 t", [" "]),
    ],
)
def test_what_is_no_column_stands_in_each_line(text: str, shown: str, told: list[str]) -> None:
    refused: list[str] = []
    cells = columns.short_cells(text, TABLE, refused.append)
    titles, line = lines(cells, ["JOBID"])
    assert (titles, refused) == (shown, told)
    assert line == shown.replace("ST", "R")


def test_all_columns_stand_between_bars() -> None:
    assert list(lines(columns.short_cells("%all", TABLE, pytest.fail), ["1"])) == [
        "JOBID|ST",
        "1|R",
    ]


def test_names_have_twenty_characters_unless_said() -> None:
    refused: list[str] = []
    cells = columns.long_cells("JobID:5,tres-per-node:.12|,bogus", NAMES, refused.append)
    assert list(lines(cells, ["ab"])) == ["JobIDTRES_PER_NOD|", "ab   abababababab|"]
    assert refused == ["bogus"]
    assert list(lines(columns.long_cells("jobid", NAMES, pytest.fail), ["7"], header=False)) == [
        "7".ljust(20)
    ]
    (as_long_as_it_is,) = lines(
        columns.long_cells("jobid:,,jobid:.|", NAMES, pytest.fail), ["7"], header=False
    )
    assert as_long_as_it_is == "77|"


def test_percent_signs_give_widths_and_cut_with_a_plus() -> None:
    refused: list[str] = []
    cells = columns.percent_cells("JobID,JobID%5,jobid%-4,x", NAMES, None, refused.append)
    assert list(lines(cells, ["1234567"], header=False)) == ["1234567      1234+ 123+ "]
    assert refused == ["x"]
    parsable = columns.percent_cells("JobID%5,JobID", NAMES, "|", pytest.fail)
    assert list(lines(parsable, ["1234567"])) == ["JobID|JobID|", "1234567|1234567|"]


def test_what_a_terminal_obeys_is_not_printed() -> None:
    cells = columns.short_cells("%i", TABLE, pytest.fail)
    assert list(lines(cells, ["a\x1b[2Jb\n"], header=False)) == ["a?[2Jb?"]
