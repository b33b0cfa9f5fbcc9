"""Tables, sizes and times as they are printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from moiety.agent.control.protocol import Processes
from moiety.agent.core.journal_events import Event
from moiety.cli.events import events
from moiety.cli.main import moiety
from moiety.cli.output import Size, count, document, fold, seconds, size, table
from moiety.model.errors import InvalidSize, NoAgent, YamlMissing
from tests.unit.top.test_rows import row


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


def test_yaml_says_what_json_says() -> None:
    yaml = pytest.importorskip("yaml")
    answer = Processes([row(program="caf\u00e9\udcff: yes", labels={"pod": "on"})], "no, 1e3")
    text = document(answer, "yaml")
    assert text.startswith("---\nrows:\n- tenant: 1\n")
    assert "café?: yes" in text
    assert yaml.safe_load(text) == json.loads(document(answer, "json"))


def test_yaml_is_refused_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert document([], "json") == "[]\n"
    with pytest.raises(YamlMissing, match="not installed") as refused:
        document([], "yaml")
    assert (int(refused.value.exit_code), "moiety[yaml]" in refused.value.hint) == (78, True)


@pytest.mark.parametrize("command", ["ps", "status", "gpu ls", "inspect x"])
def test_the_commands_that_show_have_yaml(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOIETY_DIR", str(tmp_path))
    found = CliRunner().invoke(moiety, [*command.split(), "-o", "yaml"])
    if command.startswith("inspect"):
        assert isinstance(found.exception, NoAgent)
    else:
        assert found.output in ("--- []\n", "--- null\n...\n"), found.output


def test_each_event_is_a_document_of_yaml(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOIETY_DIR", str(tmp_path))
    happened = [Event(number, 1.0, "warning", "Refused", "") for number in (1, 2)]
    monkeypatch.setattr("moiety.cli.events.known", lambda _: iter(happened))
    shown = CliRunner().invoke(events, ["-o", "yaml"]).output
    assert [line for line in shown.splitlines() if "number" in line or line == "---"] == [
        "---",
        "number: 1",
        "---",
        "number: 2",
    ]


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
