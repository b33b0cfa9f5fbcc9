"""How large a cluster has to be, with queues and without, and which pools serve better."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moiety.cli.main import main
from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import Node, gpus
from moiety.policy.model.workloads import Shape
from moiety.sim.capacity import Part, parse_split, split
from moiety.sim.capacity_nodes import needed_nodes, sized
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.replay import ReplaySettings
from moiety.sim.runs import RestartCost
from moiety.sim.trace import Job, Trace

HEAD = "name,gpus,submitted_s,duration_s,queue\n"
JSON = ("-o", "json")


def sim(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["sim", *arguments])
    out, err = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err


def tasks(count: int = 12, model: str = "") -> Trace:
    """On three nodes of two kinds: tasks of a GPU and an hour, all at once."""
    nodes = (
        *(Node(f"a{at}", 8000, 64, gpus(4), "A100", 40000) for at in range(2)),
        Node("t", 8000, 64, gpus(4), "T4", 16000),
    )
    models = frozenset({model} if model else ())
    shape = Shape(0, 0, 1, 1000, 0, models)
    jobs = tuple(Job(f"j{at}", shape, float(at), 3600.0) for at in range(count))
    return Trace("t", nodes, jobs)


def test_a_smaller_cluster_has_as_many_of_each_kind_in_proportion() -> None:
    trace = tasks()
    assert [node.name for node in sized(trace, 3).nodes] == ["a0", "a1", "t"]
    assert [node.model for node in sized(trace, 1).nodes] == ["A100"]
    large = sized(trace, 9).nodes
    assert [sum(node.model == model for node in large) for model in ("A100", "T4")] == [6, 3]
    assert len({node.name for node in large}) == 9


def test_the_fewest_nodes_are_found() -> None:
    tried: list[int] = []
    found = needed_nodes(tasks(), 60.0, ReplaySettings(), lambda result: tried.append(result.nodes))
    assert found is not None
    assert (found.nodes, found.gpus) == (3, 12)
    assert 3 in tried
    found = needed_nodes(tasks(), 3700.0, ReplaySettings())
    assert found is not None
    assert found.nodes == 2
    found = needed_nodes(tasks(24), 60.0, ReplaySettings())
    assert found is not None
    assert found.nodes == 6
    assert needed_nodes(tasks(200), 60.0, ReplaySettings()) is None


def test_a_size_that_lacks_a_kind_of_node_is_not_enough() -> None:
    found = needed_nodes(tasks(3, "T4"), 1e6, ReplaySettings())
    assert found is not None
    assert not found.refused
    assert found.nodes > 1
    assert (
        needed_nodes(tasks(3, "H100"), 1e6, ReplaySettings()) is not None
    )  # refused on any cluster


def test_pools_are_for_sizes_or_for_queues() -> None:
    assert parse_split("48@1:vision+speech,64") == [
        Part(48, 1, frozenset({"vision", "speech"})),
        Part(64),
    ]
    gangs = tuple(
        GangJob(f"{queue}{at}", 1, 0.0, 100.0, queue) for queue in ("a", "b") for at in range(8)
    )
    trace = GangTrace("t", gangs, (8,))
    apart = split(trace, parse_split("2:a,6"), "fifo", RestartCost(), 8)
    assert {queue.name: queue.completion_mean_s for queue in apart.queues} == {"a": 250, "b": 125}
    with pytest.raises(InvalidValue, match="no pool takes a job of 1 GPUs of queue b"):
        split(trace, parse_split("8:a"), "fifo", RestartCost(), 8)
    for text in ("8:", "8:+", ":a", "8@x:a", "99999999999", "²"):
        with pytest.raises(InvalidValue, match="is no pool"):
            parse_split(text)


def test_splits_stand_side_by_side_and_the_best_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "jobs.csv"
    rows = [f"{queue}{at},1,{at},100,{queue}\n" for queue in "ab" for at in range(16)]
    file.write_text(HEAD + "".join(rows))
    code, out, _ = sim(
        capsys, "capacity", str(file), "--cluster", "8", "--split", "2:a,6", "--split", "4:a,4"
    )
    assert code == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["POOLS", "one", "2:a,6", "4:a,4"]
    assert lines[-1].endswith("serves best by the wait of all but 5 %")
    assert not lines[-1].startswith("2:a,6")
    _, out, _ = sim(capsys, "capacity", str(file), "--cluster", "8", "--split", "2:a,8")
    assert "they have not equally many GPUs" in out
    _, out, _ = sim(capsys, "capacity", str(file), "--cluster", "8", "--split", "2:a,6", *JSON)
    assert [each["pools"] for each in json.loads(out)] == ["one pool", "2:a,6"]


def test_a_size_is_found_with_queues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A queue that may have two GPUs waits however large the cluster is."""
    file, queues = tmp_path / "jobs.csv", tmp_path / "queues.csv"
    rows = [f"{queue}{at},1,{at},600,{queue}\n" for queue in "ab" for at in range(16)]
    file.write_text(HEAD + "".join(rows))
    code, out, _ = sim(capsys, "capacity", str(file), "--wait", "1", "--node-gpus", "4")
    assert (code, out.splitlines()[-1][:2]) == (0, "32")
    code, out, _ = sim(
        capsys, "capacity", str(file), "--wait", "1", "--node-gpus", "4", "--by-queue"
    )
    assert (code, out.splitlines()[-1][:2]) == (0, "32")
    queues.write_text("name,quota_gpus,limit_gpus\na,0,2\nb,0,\n")
    arguments = ["--wait", "60", "--node-gpus", "4", "--queues", str(queues), "-o", "json"]
    code, out, _ = sim(capsys, "capacity", str(file), *arguments)
    assert code == 0
    answer = json.loads(out)
    assert (answer["nodes"], answer["gpus"]) == (None, None)
    assert min(each["wait_p95_s"] for each in answer["tried"]) > 3600
    code, out, _ = sim(capsys, "capacity", str(file), "--wait", "1", "--node-gpus", "4", *JSON)
    answer = json.loads(out)
    assert (code, answer["nodes"], answer["gpus"]) == (0, 8, 32)
    assert 8 in [each["nodes"] for each in answer["tried"]]


def test_the_trace_that_comes_with_moiety_has_a_size(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = sim(capsys, "capacity", "--wait", "600")
    assert code == 0
    assert out.splitlines()[0].split()[:2] == ["NODES", "GPUS"]
    assert "keep the wait of all but 5 % within 10 h" in out
    code, _, err = sim(capsys, "capacity", "--split", "8,8")
    assert (code, "--split is for a trace that is one file" in err) == (64, True)
