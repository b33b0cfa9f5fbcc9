"""The list of tests that the gate leaves out or had to run twice, and what may run twice."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tools import quarantine, rerun

from tests import conftest

TODAY = dt.date(2026, 11, 22)
HERE = "tests/unit/tools/test_quarantine.py"
NAME = f"{HERE}::test_a_complete_list_is_accepted"
OTHER = f"{HERE}::test_what_is_wrong_with_an_entry_is_named"
WHY = "it measures times of real processors"


def complaints(**tables: list[dict[str, Any]]) -> list[str]:
    return quarantine.complaints({"quarantined": [], "rerun": []} | tables, TODAY)


def test_a_complete_list_is_accepted() -> None:
    assert complaints(
        quarantined=[{"name": NAME, "since": TODAY, "reason": WHY}],
        rerun=[{"name": OTHER, "date": TODAY, "found": WHY}],
    ) == []  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": f"{HERE}::test_of_old"}, "no such test"),
        ({"name": f"{NAME}[1]"}, "no such test"),
        ({"name": HERE}, "no such test"),
        ({"name": "tools/check.py::main"}, "no such test"),
        ({"since": "2026-11-22"}, "no date"),
        ({"since": TODAY + dt.timedelta(days=1)}, "still to come"),
        ({"reason": ""}, "reason is empty"),
        ({"reason": "flaky"}, "too short"),
        ({"more": 1}, "wanted: name, since, reason"),
    ],
)
def test_what_is_wrong_with_an_entry_is_named(change: dict[str, Any], said: str) -> None:
    (line,) = complaints(quarantined=[{"name": NAME, "since": TODAY, "reason": WHY} | change])
    assert said in line


def test_a_name_stands_in_a_table_once() -> None:
    entry = {"name": NAME, "date": TODAY, "found": WHY}
    assert complaints(rerun=[entry, entry]) == [f"[[rerun]] {NAME}: is there 2 times"]


def test_a_table_of_another_name_is_no_table() -> None:
    assert complaints(quarantine=[]) == ["[[quarantine]] is no table of this list"]


@pytest.mark.parametrize("wanted", [False, True])
def test_tests_in_quarantine_run_only_when_asked_for(
    wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "quarantine.toml"
    listed.write_text(f'[[quarantined]]\nname = "{NAME}"\nsince = 2026-11-22\nreason = "{WHY}"\n')
    monkeypatch.setattr(conftest, "QUARANTINE", listed)
    left_out: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda *, items: left_out.extend(items))
    config = SimpleNamespace(getoption=lambda _: wanted, hook=hook)
    ids = [NAME, f"{NAME}[1]", OTHER]
    items = [cast("pytest.Item", SimpleNamespace(nodeid=each)) for each in ids]
    conftest.pytest_collection_modifyitems(cast("pytest.Config", config), items)
    ran, out = [each.nodeid for each in items], [each.nodeid for each in left_out]
    assert (ran, out) == ((ids[:2], ids[2:]) if wanted else (ids[2:], ids[:2]))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "v" / "cache").mkdir(parents=True)
    return tmp_path


def fail(cache: Path, *ids: str) -> None:
    (cache / "v" / "cache" / "lastfailed").write_text(json.dumps(dict.fromkeys(ids, True)))


def test_two_tests_of_a_run_may_run_again_and_no_third_one(cache: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    fail(cache, f"{NAME}[a b]", OTHER)
    assert rerun.allow(cache, record) == 0
    assert rerun.recorded(record) == [f"{NAME}[a b]", OTHER]
    fail(cache, f"{HERE}::test_a_third")
    assert rerun.allow(cache, record) == 1
    assert rerun.recorded(record) == [f"{NAME}[a b]", OTHER]


def test_what_no_test_failed_of_is_not_run_again(tmp_path: Path) -> None:
    assert rerun.allow(tmp_path, tmp_path / "record") == 1


def test_a_file_that_cannot_be_read_and_a_name_that_comes_back_are_refused() -> None:
    assert "could not read" in (rerun.refusal([HERE], [], set()) or "")
    assert "ran twice before" in (rerun.refusal([f"{NAME}[2]"], [], {NAME}) or "")
    assert rerun.refusal([f"{NAME}[2]"], [], {OTHER}) is None


def test_what_ran_twice_is_printed_last_and_waits_in_the_list_for_an_explanation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, listed = tmp_path / "record", tmp_path / "quarantine.toml"
    listed.write_text("")
    assert rerun.report(record, listed) == 0
    assert (capsys.readouterr().out, listed.read_text()) == ("", "")
    record.write_text(f"{NAME}[1]\n{NAME}[2]\n")
    assert rerun.report(record, listed) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"ran twice: {NAME}"
    tables = quarantine.load(listed)
    assert [each["name"] for each in tables["rerun"]] == [NAME]
    (line,) = quarantine.complaints(tables, dt.datetime.now(tz=dt.UTC).date())
    assert "found is empty" in line


def test_where_the_list_cannot_be_written_its_entries_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "record"
    record.write_text(f"{NAME}\n")
    assert rerun.report(record, tmp_path) == 0  # a folder, which nobody can write like a file
    assert f'[[rerun]]\nname = "{NAME}"\n' in capsys.readouterr().out
