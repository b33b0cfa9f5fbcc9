"""Whatever stands in a file, or is named as one: a sentence with file, line and reason."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moiety.cli.main import main
from moiety.model import errors
from moiety.model.errors import ScenarioInvalid
from moiety.sim.scenario import run_all
from moiety.sim.scenario_file import RefusedCase, read_scenarios
from tests.unit.sim.test_scenario import CASE

JOBS = "name,gpus,submitted_s,duration_s\n"
NASTY: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    float("nan"),
    float("inf"),
    10**400,
    1e15,
    1e300,
    "",
    "x",
    [],
    [1],
    [[]],
    {},
    {"a": 1},
)


def sim(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["sim", *arguments])
    _, err = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    assert "Traceback" not in err
    return ended.value.code, err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "jobs.csv, line 1: it has no columns, because it is empty"),
        (b"\xff\xfe\x00", "jobs.csv: byte 0 is no text in UTF-8"),
        (b"name,gpus,submitted_s\na,1,0\n", "line 1: it has no column duration_s"),
        (JOBS.encode() + b"a,1,-1,5\n", "line 2: submitted_s is negative: -1"),
        (JOBS.encode() + b"a,1,nan,5\n", "line 2: submitted_s is not a number: 'nan'"),
        (JOBS.encode() + b"a,1,0,inf\n", "line 2: duration_s is not a number: 'inf'"),
        (JOBS.encode() + b"a,1,0,1e99\n", "line 2: duration_s is larger than anything: 1e+99"),
        (JOBS.encode() + b"a,9,0,5\n", "line 2: a wants 9 GPUs, and the cluster has 8"),
        (JOBS.encode() + b"a,1,0,5\na,1,0,5\n", "line 3: a is in line 2 already"),
    ],
)
@pytest.mark.parametrize("command", ["run", "compare", "capacity"])
def test_a_file_of_jobs_that_makes_no_sense_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: bytes, words: str
) -> None:
    (tmp_path / "jobs.csv").write_bytes(text)
    code, err = sim(capsys, command, str(tmp_path / "jobs.csv"), "--cluster", "8")
    assert code == errors.TraceInvalid.exit_code
    assert words in err


def test_jobs_as_jsonl_are_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_text('{"name": "a", "gpus": 1, "submitted_s": 0, "duration_s": 5}\n')
    assert sim(capsys, "run", str(file))[0] == 0
    file.write_text('{"name": "a", "gpus": 1}\n')
    code, err = sim(capsys, "run", str(file))
    assert (code, "jobs.jsonl, line 1: it has no column duration_s" in err) == (
        errors.TraceInvalid.exit_code,
        True,
    )
    file.write_text("[1]\n")
    code, err = sim(capsys, "run", str(file))
    assert (code, "jobs.jsonl, line 1: it is not an object of JSON" in err) == (
        errors.TraceInvalid.exit_code,
        True,
    )


def test_what_is_no_file_of_jobs_says_what_would_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.txt").write_text("x")
    for name in ("/dev/null", str(tmp_path), str(tmp_path / "jobs.txt"), "/proc/nowhere.csv"):
        for command in ("run", "compare"):
            code, err = sim(capsys, command, name)
            assert code == errors.TraceMissing.exit_code
            assert f"there is no trace in {name}" in err
            assert "a file of jobs that ran, .csv or .jsonl" in err


@pytest.mark.parametrize(("option", "what"), [("--queues", "queues"), ("--changes", "changes")])
def test_a_list_that_is_not_there_is_called_what_it_would_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, what: str
) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(JOBS + "a,1,0,5\n")
    for name in ("/dev/null", str(tmp_path), "/proc/nowhere"):
        code, err = sim(capsys, "run", str(jobs), option, name)
        assert code == errors.TraceMissing.exit_code
        assert f"there is no list of {what} in {name}: it " in err
    empty = tmp_path / "empty.csv"
    empty.write_bytes(b"")
    assert sim(capsys, "run", str(jobs), option, str(empty))[0] == errors.TraceInvalid.exit_code
    empty.write_bytes(b"\xff")
    code, err = sim(capsys, "run", str(jobs), option, str(empty))
    assert code == errors.TraceInvalid.exit_code
    assert "empty.csv: byte 0 is no text in UTF-8" in err


@pytest.mark.parametrize("command", [["scenario"], ["explain"], ["what-if", "--queue", "q"]])
def test_a_file_of_cases_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    file = tmp_path / "case.json"
    job = ["j"] if command == ["explain"] else []
    for text in (b"", b"\xff", b"[", b"7", b'{"nodes": 1' + b"0" * 5000 + b"}", b"[" * 10**5):
        file.write_bytes(text)
        code, err = sim(capsys, *command, str(file), *job)
        assert code == errors.ScenarioInvalid.exit_code
        assert str(file) in err
    for name in ("/dev/null", str(tmp_path), "/proc/nowhere"):
        assert sim(capsys, *command, name, *job)[0] == errors.ScenarioInvalid.exit_code


def test_any_value_anywhere_in_a_case_is_done_or_refused(tmp_path: Path) -> None:
    """Each value of a case that makes sense is exchanged for each that may make none."""
    cases: list[Any] = []
    for way in _ways(CASE):
        for value in NASTY:
            case = copy.deepcopy(CASE)
            at: Any = case
            for step in way[:-1]:
                at = at[step]
            at[way[-1]] = value
            cases.append(case)
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(cases))
    read = read_scenarios(file)
    assert len(read) == len(cases)
    refused = [each for each in read if isinstance(each, RefusedCase)]
    assert len(refused) > len(cases) / 2
    for each in refused:
        assert isinstance(each.error, ScenarioInvalid)
        assert f"{file}, cases[" in each.error.what
    for outcome in run_all(read, str(file)):
        assert outcome.error is None or outcome.error.exit_code == errors.ScenarioInvalid.exit_code


def test_a_job_says_which_models_will_do(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    case = copy.deepcopy(CASE)
    case["nodes"] = [
        {"name": name, "gpus": 2, "cpu_milli": 9000, "memory_bytes": 2**34, "model": model}
        for name, model in (("a", "T4"), ("b", "A100"), ("c", "L40S"))
    ]
    rows = [["L40S"], ["A100", "L40S"], ["A100", "L40S"], None]
    case["jobs"] = [
        CASE["jobs"][0]
        | {"name": f"j{at}", "gpus_per_task": 2, "models": models, "tasks": [{"state": "pending"}]}
        for at, models in enumerate(rows)
    ]
    case["queues"] = [CASE["queues"][0] | {"parent": None, "quota_gpus": 8, "limit_gpus": None}]
    for job in case["jobs"]:
        job["queue"] = case["queues"][0]["name"]
    case["expect"] = {}
    file.write_text(json.dumps([case]))
    [outcome] = run_all(read_scenarios(file), str(file))
    nodes = {name: task["node"] for name, task in outcome.tasks.items()}
    assert sorted(str(node) for node in nodes.values()) == ["None", "a", "b", "c"]
    assert nodes["j3/0"] == "a"
    assert nodes["j0/0"] in (None, "c")
    for wrong, words in (
        (["H100"], "no node has GPUs of model 'H100', but: A100, L40S, T4"),
        (7, "it is not a list"),
    ):
        case["jobs"][0]["models"] = wrong
        file.write_text(json.dumps([case]))
        [refused] = read_scenarios(file)
        assert isinstance(refused, RefusedCase)
        assert f"cases[0].jobs[0].models: {words}" in refused.error.what


def _ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """To each value inside."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inside:
        yield (*way, key)
        if isinstance(each, dict | list):
            yield from _ways(each, (*way, key))
