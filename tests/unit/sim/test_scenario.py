from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moiety.cli.sim.scenario import scenario
from moiety.model import errors
from moiety.model.errors import ScenarioInvalid
from moiety.sim.scenario import run_all
from moiety.sim.scenario_file import RefusedCase, read_scenarios
from tests.unit.sim.where import DATA

DEV = DATA / "scenarios" / "dev.json"
ARGUABLE = frozenset(
    {
        "don't allow job over QUEUE deserved CPU",
        "Reclaim based on releasing and idle resources with fractions",
    }
)
"""docs/explanation-queues.md says why"""


def queue(name: str, **more: Any) -> dict[str, Any]:
    usual = {"parent": None, "created": 0, "priority": 100, "quota_gpus": 1, "limit_gpus": None}
    return {"name": name, **usual, "over_quota_weight": 1, **more}


def job(name: str, *tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    usual = {"queue": "q", "priority": 50, "preemptible": True, "created": 0, "gpus_per_task": 1}
    return {"name": name, **usual, "min_tasks": len(tasks), "tasks": list(tasks), **more}


RUNNING: dict[str, Any] = {"state": "running", "node": "n"}
PENDING: dict[str, Any] = {"state": "pending"}
CASE: dict[str, Any] = {
    "name": "two queues",
    "nodes": [{"name": "n", "gpus": 2, "gpu_memory_mib": 100, "cpu_milli": 9, "memory_bytes": 9}],
    "queues": [queue("q"), queue("r", created=1)],
    "jobs": [job("old", RUNNING), job("young", RUNNING, created=1), job("new", PENDING, queue="r")],
    "expect": {
        "jobs": {"new": {"status": "running", "node": "n"}, "young": {"status": "pending"}},
        "tasks": {"old/0": {"status": "running"}},
    },
}


def write(tmp_path: Path, *cases: Any) -> Path:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(list(cases)))
    return path


def test_a_case_says_what_became_of_it(tmp_path: Path) -> None:
    path = write(tmp_path, CASE)
    result = CliRunner().invoke(scenario, [str(path), "-o", "json"], catch_exceptions=False)
    [case] = json.loads(result.stdout)["cases"]
    assert (case["name"], case["passed"], case["problems"]) == ("two queues", True, [])
    assert case["tasks"] == {
        "old/0": {"status": "running", "node": "n"},
        "young/0": {"status": "pending", "node": None},
        "new/0": {"status": "running", "node": "n"},
    }
    kinds = [(each["cycle"], each["kind"], each["task"]) for each in case["decisions"]]
    assert kinds == [
        (1, "eviction", "young/0"),
        (1, "placement", "new/0"),
        (2, "refusal", "young/0"),
    ]


def test_a_limit_of_memory_is_told_in_bytes(tmp_path: Path) -> None:
    case = {
        "name": "memory",
        "nodes": [{"name": "n", "gpus": 1, "memory_bytes": 64e9}],
        "queues": [queue("q", limit_memory_bytes=10.5e9)],
        "jobs": [job("j", PENDING, memory_bytes_per_task=20e9)],
    }
    [outcome] = run_all(read_scenarios(write(tmp_path, case)), "")
    assert [each["reason"] for each in outcome.decisions] == [
        "by it alone, queue q would have 20000000000 bytes of memory, and its limit is 10500000000"
    ]


def evictions(tmp_path: Path, *tasks: dict[str, Any], **more: Any) -> set[str]:
    """The reasons for which tasks of a gang alone on two GPUs end."""
    case = {**CASE, "jobs": [job("gang", *tasks, **more)], "expect": {}}
    [outcome] = run_all(read_scenarios(write(tmp_path, case)), "cases.json")
    return {each["reason"] for each in outcome.decisions if each["kind"] == "eviction"}


def test_a_gang_that_runs_with_too_few_tasks_in_its_file_ends_for_that(tmp_path: Path) -> None:
    """Two tasks run, and the file has no third one: "only 0 of at least 1 tasks" was said."""
    said = evictions(tmp_path, RUNNING, RUNNING, min_tasks=3)
    assert said == {"it needs 3 tasks at once, and there are only 2"}


def test_a_gang_that_lost_members_ends_for_what_it_has_and_needs_in_all(tmp_path: Path) -> None:
    """The task that is lost asks for something else than the others, and counts with them."""
    said = evictions(tmp_path, RUNNING, RUNNING, {**PENDING, "gpus": 0.5}, min_tasks=3)
    assert said == {"only 2 of at least 3 tasks of the gang have places"}


def test_two_queues_above_quota_do_not_take_cpus_from_each_other_for_ever(tmp_path: Path) -> None:
    """Each has a GPU beyond its quota, and one of two CPU-only jobs has room."""
    cpus: dict[str, Any] = {"gpus_per_task": 0, "cpu_milli_per_task": 9}
    jobs = [
        *(job(f"gpu-{name}", RUNNING, queue=name) for name in "qr"),
        job("has", RUNNING, queue="q", **cpus),
        job("waits", PENDING, queue="r", **cpus),
    ]
    queues = [queue(name, created=at, quota_gpus=0) for at, name in enumerate("qr")]
    case = {**CASE, "queues": queues, "jobs": jobs, "expect": {}}
    [outcome] = run_all(read_scenarios(write(tmp_path, case)), "cases.json")
    assert outcome.problems == []
    assert [each["kind"] for each in outcome.decisions] == ["refusal"]


def test_by_quota_work_with_gpus_takes_cpus_from_a_queue_with_too_many_gpus(tmp_path: Path) -> None:
    jobs = [
        job("gpu-q", RUNNING, queue="q"),
        job("has", RUNNING, queue="q", gpus_per_task=0, cpu_milli_per_task=9),
        job("waits", PENDING, queue="r", cpu_milli_per_task=9),
    ]
    queues = [queue("q", quota_gpus=0), queue("r", created=1)]
    case = {**CASE, "queues": queues, "jobs": jobs, "expect": {}}
    [outcome] = run_all(read_scenarios(write(tmp_path, case)), "cases.json")
    assert outcome.tasks["waits/0"]["status"] == "running"
    assert outcome.tasks["gpu-q/0"]["status"] == "running"


def test_what_is_expected_changes_nothing_that_is_decided(tmp_path: Path) -> None:
    other = copy.deepcopy(CASE)
    other["expect"] = {"jobs": {"new": {"status": "pending"}, "nobody": {"status": "running"}}}
    good, bad = run_all(read_scenarios(write(tmp_path, CASE, other)), "")
    assert (good.passed, bad.passed) == (True, False)
    assert (good.tasks, good.decisions) == (bad.tasks, bad.decisions)
    assert bad.problems[0] == "new/0 is running, not pending, after 2 cycles"
    assert "nobody is expected to be running, but there is no such task" in bad.problems


def test_the_text_names_cases_and_counts_them(tmp_path: Path) -> None:
    other = copy.deepcopy(CASE)
    other["expect"]["jobs"]["new"]["node"] = "m"
    result = CliRunner().invoke(scenario, [str(write(tmp_path, CASE, other))])
    lines = result.stdout.splitlines()
    assert lines[0] == "passed  two queues"
    assert lines[1] == "FAILED  two queues"
    assert lines[2] == "        new/0 is on n, not on m, after 2 cycles"
    assert lines[-1] == "1 of 2 cases passed"


def broken(path: str, value: Any) -> dict[str, Any]:
    """The case with one value changed: queues.0.parent"""
    case = copy.deepcopy(CASE)
    at: Any = case
    *way, last = path.split(".")
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    if isinstance(at, list):
        at[int(last)] = value
    else:
        at[last] = value
    return case


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("queues.0.parent", "q", "cases[0].queues: queues go round in a loop: q below q"),
        ("queues.0.parent", "s", "cases[0].queues: queue q: there is no queue s above it"),
        ("queues.1.name", "q", "cases[0].queues[1].name: there are two queues of the name q"),
        ("jobs.1.name", "old", "cases[0].jobs[1].name: there are two jobs of the name old"),
        ("jobs.0.queue", "s", "cases[0].jobs[0].queue: there is no queue s"),
        ("jobs.0.created", -1, "cases[0].jobs[0].created: it is negative"),
        ("jobs.0.gpus_per_task", 0.0001, "0.0001 is less than a thousandth of a GPU"),
        ("jobs.0.max_run_s", 0, "jobs[0].max_run_s: it is 0, so the job could never run"),
        ("jobs.0.gpus_per_task", 1.5, "gpus_per_task: 1.5 is neither a part of one nor whole"),
        ("jobs.0.tasks.0.state", "gone", "tasks[0].state: it is 'gone', not running or pending"),
        ("jobs.0.tasks.0.node", "m", "cases[0].jobs: old runs on m, which is not there"),
        ("jobs.0.gpus_per_task", 3, "old runs on n, but its GPUs are full"),
        ("nodes.0.gpus", "two", "cases[0].nodes[0].gpus: it is not a number: 'two'"),
        ("nodes", None, "cases[0].nodes: there is no such list"),
        ("jobs.0.cpu_milli_per_task", 99, "cases[0]"),
    ],
)
def test_a_case_that_makes_no_sense_says_where(
    tmp_path: Path, path: str, value: Any, words: str
) -> None:
    file = write(tmp_path, broken(path, value), CASE)
    result = CliRunner().invoke(scenario, [str(file), "-o", "json"])
    assert isinstance(result.exception, ScenarioInvalid)
    assert result.exception.exit_code == errors.ScenarioInvalid.exit_code
    assert f"{file}, " in result.exception.what
    assert words in result.exception.what
    bad, good = json.loads(result.stdout)["cases"]
    assert (bad["passed"], good["passed"]) == (False, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [("[", "line 1: it is not JSON"), ("{}", "it is not a list of cases"), (None, "No such file")],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "cases.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ScenarioInvalid, match=words):
        read_scenarios(path)


def test_quotas_beyond_the_parent_are_reported_or_refused(tmp_path: Path) -> None:
    case = copy.deepcopy(CASE)
    case["queues"] = [queue("d"), queue("q", parent="d"), queue("r", parent="d")]
    path = write(tmp_path, case)
    [outcome] = run_all(read_scenarios(path), str(path))
    note = "the quotas below queue d add up to 2000 gpu_milli, it has 1000 itself"
    assert list(outcome.notes) == [note]
    [refused] = read_scenarios(path, strict=True)
    assert isinstance(refused, RefusedCase)
    assert note in refused.error.what


@pytest.mark.skipif(not DEV.exists(), reason=f"the scenarios are not in {os.fspath(DEV)}")
def test_what_another_scheduler_promises() -> None:
    outcomes = run_all(read_scenarios(DEV), str(DEV))
    failed = {outcome.name: list(outcome.problems) for outcome in outcomes if not outcome.passed}
    assert set(failed) <= ARGUABLE, failed
    assert not any("loop" in problem for problems in failed.values() for problem in problems)
