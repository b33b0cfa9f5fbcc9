"""Nodes of scenarios, machines with GPUs of several models among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moiety.sim.scenario import run_scenario
from moiety.sim.scenario_file import RefusedCase, Scenario, read_scenarios

QUEUE = {"name": "q", "parent": None, "quota_gpus": 4}
MACHINE = {"name": "ws", "model": "A100:2|T4:2", "cpu_milli": 8000, "memory_bytes": 8}


def case_of(tmp_path: Path, *nodes: dict[str, Any], **rest: Any) -> Scenario | RefusedCase:
    file = tmp_path / "case.json"
    file.write_text(json.dumps({"nodes": nodes, "queues": [QUEUE], "jobs": [], **rest}))
    [case] = read_scenarios(file)
    return case


def job(name: str, gpus: float, *models: str, **task: Any) -> dict[str, Any]:
    tasks = [task or {"state": "pending"}]
    more = {"models": models} if models else {}
    return {"name": name, "queue": "q", "gpus_per_task": gpus, "tasks": tasks, **more}


def running(device: str = "") -> dict[str, Any]:
    return {"state": "running", "node": "ws"} | ({"gpu_group": [device]} if device else {})


def test_a_machine_with_two_models_is_a_node_for_each(tmp_path: Path) -> None:
    case = case_of(tmp_path, MACHINE | {"gpu_memory_mib": [40960, 16384]}, {"name": "cpu"})
    assert isinstance(case, Scenario)
    assert [
        (node.name, node.model, len(node.gpus), node.gpu_memory_mib, node.cpu_milli)
        for node in case.snapshot.nodes
    ] == [
        ("ws/A100", "A100", 2, 40960, 4000),
        ("ws/T4", "T4", 2, 16384, 4000),
        ("cpu", "", 0, 0, 0),
    ]
    hosts = [dict(node.topology)["host"] for node in case.snapshot.nodes]
    assert hosts == ["ws", "ws", "cpu"]
    assert case.machines == {"ws/A100": "ws", "ws/T4": "ws"}


def test_without_such_a_machine_nodes_are_as_they_are_written(tmp_path: Path) -> None:
    case = case_of(tmp_path, {"name": "a", "gpus": 2, "model": "T4"}, {"name": "b", "gpus": 1})
    assert isinstance(case, Scenario)
    found = [(node.name, node.model, node.topology) for node in case.snapshot.nodes]
    assert found == [("a", "T4", ()), ("b", "GPU", ())]


def test_work_runs_on_the_model_that_it_names(tmp_path: Path) -> None:
    jobs = [
        job("old", 1, "T4", **running()),
        job("new", 2, "A100"),
        job("any", 1) | {"created": 1},
        job("late", 1, "T4") | {"created": 2},
    ]
    wanted = {"old": "ws/T4", "new": "ws/A100", "any": "ws"}
    expect = {name: {"status": "running", "node": node} for name, node in wanted.items()}
    expect["late"] = {"status": "pending"}
    case = case_of(tmp_path, MACHINE, jobs=jobs, expect={"jobs": expect})
    assert isinstance(case, Scenario)
    outcome = run_scenario(case)
    assert outcome.problems == []
    assert outcome.tasks["any/0"] == {"status": "running", "node": "ws/T4"}


def test_what_runs_on_a_machine_has_room_on_one_of_its_models(tmp_path: Path) -> None:
    jobs = [job(name, 1, **running()) for name in ("a", "b", "c", "d")]
    case = case_of(tmp_path, MACHINE, jobs=jobs)
    assert isinstance(case, Scenario)
    spots = [(each.spot.node, each.spot.gpus) for each in case.snapshot.running]
    assert spots == [("ws/A100", (0,)), ("ws/A100", (1,)), ("ws/T4", (0,)), ("ws/T4", (1,))]
    refused = case_of(tmp_path, MACHINE, jobs=[*jobs, job("e", 0.5, **running())])
    assert isinstance(refused, RefusedCase)
    assert "e runs on ws, but its GPUs are full" in refused.error.what


def test_a_device_is_of_one_model(tmp_path: Path) -> None:
    jobs = [job("a", 0.5, "T4", **running("x")), job("b", 0.5, **running("x"))]
    case = case_of(tmp_path, MACHINE, jobs=jobs)
    assert isinstance(case, Scenario)
    assert {each.spot.node for each in case.snapshot.running} == {"ws/T4"}
    assert len({each.spot.gpus for each in case.snapshot.running}) == 1


def test_work_without_gpus_runs_on_the_machine(tmp_path: Path) -> None:
    case = case_of(tmp_path, MACHINE, jobs=[job("a", 0, **running())])
    assert isinstance(case, Scenario)
    assert [each.spot.node for each in case.snapshot.running] == ["ws/A100"]


@pytest.mark.parametrize(
    ("row", "key", "why"),
    [
        ({"model": ["T4", "A100"]}, "model", "say how many GPUs it has of T4 and A100"),
        ({"gpus": 3}, "gpus", "its models add up to 4 GPUs, and gpus is 3"),
        ({"model": "A100:0|T4:2"}, "model", "'A100:0' is not a model and its number of GPUs"),
        ({"model": "A100:2|A100:1"}, "model", "it names the model A100 twice"),
        ({"model": "A100:60|T4:4"}, "model", "more than 63 GPUs"),
        ({"model": "A100", "gpus": 64}, "gpus", "it has 64 GPUs; at most 63"),
        ({"gpu_memory_mib": [1, 2, 3]}, "gpu_memory_mib", "it has 3 numbers, and model has 2"),
        ({"gpu_memory_mib": [1, "2"]}, "gpu_memory_mib", "it is not a number: '2'"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(
    tmp_path: Path, row: dict[str, Any], key: str, why: str
) -> None:
    case = case_of(tmp_path, {"name": "other"}, MACHINE | row)
    assert isinstance(case, RefusedCase)
    assert f"cases[0].nodes[1].{key}: " in case.error.what
    assert why in case.error.what


def test_a_part_has_a_name_of_its_own(tmp_path: Path) -> None:
    case = case_of(tmp_path, {"name": "ws/T4", "gpus": 1}, MACHINE)
    assert isinstance(case, RefusedCase)
    assert "there are two nodes of the name ws/T4" in case.error.what
