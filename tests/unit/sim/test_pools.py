"""Replays on pools that grow and shrink: what they cost, and that nothing is lost by it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moiety.cli.main import main
from moiety.model.errors import TraceInvalid, TraceMissing
from moiety.policy.model.cluster import Node, Pool, gpus
from moiety.policy.model.workloads import Shape
from moiety.sim.live_pools import live_on_pools
from moiety.sim.pool_file import read_dynamic, read_pools
from moiety.sim.reading import Complaints
from moiety.sim.replay import ReplaySettings, live
from moiety.sim.results import PoolUse, saved_percent
from moiety.sim.tables import open_trace
from moiety.sim.trace import Job, Trace

WHOLE = Shape(1000, 1, 1, 1000)
HOUR_S = 3600.0


def machine(name: str, count: int = 1, pool: str = "cloud", **more: Any) -> Node:
    return Node(name, 64000, 1024, gpus(count), more.pop("model", "T4"), 16000, pool, **more)


def trace(*jobs: tuple[float, float], nodes: int = 2) -> Trace:
    """Jobs of one GPU each that come at one time and run for another."""
    found = tuple(Job(f"j{at}", WHOLE, came, ran) for at, (came, ran) in enumerate(jobs))
    return Trace("t", tuple(machine(f"n{at}") for at in range(nodes)), found)


def pool(**more: Any) -> Pool:
    usual: dict[str, Any] = {"nodes_max": 2, "start_s": 100.0, "idle_s": 60.0}
    return Pool("cloud", is_dynamic=True, template=machine("like"), **usual | more)


def uses(found: Trace, *pools: Pool, always: tuple[Node, ...] = ()) -> tuple[Any, list[PoolUse]]:
    result = live_on_pools(found, pools, always, ReplaySettings())
    assert result.live
    assert result.placed == len(found.jobs)
    return result.live, list(result.live.pools)


def test_a_node_is_paid_for_from_the_moment_at_which_it_is_asked_for() -> None:
    found, [use] = uses(trace((0.0, 1000.0)), pool())
    assert found.wait_mean_s == pytest.approx(100.0)
    assert use.node_hours * HOUR_S == pytest.approx(1100.0)
    assert use.static_node_hours * HOUR_S == pytest.approx(2200.0)
    assert (use.nodes_most, use.started) == (1, 1)
    assert saved_percent([use]) == pytest.approx(50.0)


def test_a_node_that_is_empty_for_long_is_given_back_and_another_starts_for_the_next() -> None:
    _, [use] = uses(trace((0.0, 500.0), (1000.0, 500.0)), pool())
    assert use.started == 2
    assert use.node_hours * HOUR_S == pytest.approx(100 + 500 + 60 + 100 + 500)
    found, [use] = uses(trace((0.0, 500.0), (1000.0, 500.0)), pool(idle_s=1000.0))
    assert use.started == 1
    assert use.node_hours * HOUR_S == pytest.approx(1500)
    assert found.wait_mean_s == pytest.approx(50.0)


def test_the_least_that_a_pool_has_is_always_there() -> None:
    found, [use] = uses(trace((0.0, 500.0), (2000.0, 500.0)), pool(nodes_min=1))
    assert found.wait_mean_s == 0.0
    assert use.started == 0
    assert use.node_hours * HOUR_S == pytest.approx(2500)


def test_what_has_room_on_nodes_that_stay_starts_none() -> None:
    own = machine("own", pool="own")
    _, [use] = uses(trace((0.0, 500.0), (600.0, 500.0)), pool(), always=(own,))
    assert use.started == 0
    assert use.node_hours == 0.0


def test_never_more_nodes_than_the_most() -> None:
    jobs = tuple((float(at), 300.0) for at in range(20))
    _, [use] = uses(trace(*jobs), pool(nodes_max=3))
    assert use.nodes_most == 3


def test_the_packaged_trace_ends_with_every_task_as_on_static_nodes_and_costs_less(
    tmp_path: Path,
) -> None:
    whole = open_trace(None, None, 0)
    part = replace(whole, jobs=whole.jobs[:120])
    file = tmp_path / "pools.csv"
    file.write_text("name,start_s\n*,300\n")
    pools, always = read_pools(file, part.nodes, Complaints())
    assert always == ()
    first, again = (live_on_pools(part, pools, always, ReplaySettings()) for _ in range(2))
    static = live(part, ReplaySettings())
    assert first.placed == static.placed
    assert first.refused == static.refused
    assert first.live
    assert again.live
    assert static.live
    assert first.live.pools == again.live.pools
    assert first.live.timeline == again.live.timeline
    assert 0 < saved_percent(first.live.pools) < 100
    assert first.live.wait_mean_s >= static.live.wait_mean_s
    for use in first.live.pools:
        assert use.nodes_most <= use.nodes_max
        assert use.node_hours <= use.static_node_hours


NODES = (
    machine("a1", 4, "a"),
    machine("a2", 4, "a"),
    machine("b1", 4, "b"),
    machine("b2", 8, "b"),
    machine("c1", 8, "c", model="A100"),
)


def test_a_file_says_which_pools_are_dynamic(tmp_path: Path) -> None:
    file = tmp_path / "pools.csv"
    file.write_text("name,nodes_min,nodes_max,start_s,idle_s,like\na,1,,120,,\nb,,9,,,b2\n")
    (a, b), always = read_pools(file, NODES, Complaints())
    assert (a.nodes_min, a.nodes_max, a.start_s, a.idle_s) == (1, 2, 120.0, Pool().idle_s)
    assert (b.nodes_min, b.nodes_max) == (0, 9)
    assert b.template
    assert len(b.template.gpus) == 8
    assert [node.name for node in always] == ["c1"]
    lines = tmp_path / "pools.jsonl"
    lines.write_text('{"name": "*"}\n{"name": "a"}\n')
    found, always = read_pools(lines, NODES, Complaints())
    assert always == ()
    assert [each.nodes_max for each in found] == [2, 1, 1, 1]


def test_kinds_that_differ_in_the_memory_of_their_gpus_are_pools_of_their_own(
    tmp_path: Path,
) -> None:
    """They had one name, and the nodes of the first kind were gone."""
    file = tmp_path / "pools.csv"
    file.write_text("name\n*\n")
    small = machine("n1")
    large = [replace(machine(name), gpu_memory_mib=32000) for name in ("n2", "n3")]
    found, always = read_pools(file, [small, *large], Complaints())
    assert [each.nodes_max for each in found] == [1, 2]
    assert always == ()


def test_new_nodes_have_no_name_of_a_node_that_stays(tmp_path: Path) -> None:
    """A pool can be called as the nodes are numbered: there were "two nodes of the name n-1"."""
    file = tmp_path / "pools.csv"
    file.write_text("name,nodes_max,like\nn,2,n-1\n")
    stays = machine("n-1", pool="own")
    dynamic = read_dynamic(file, [stays], Complaints())
    assert [node.name for node in dynamic.nodes["n"]] == ["n-2", "n-3"]
    _, [use] = uses(trace((0.0, 500.0), (10.0, 500.0)), *dynamic.pools, always=(stays,))
    assert use.started == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("what\na\n", "line 1: there is no column name"),
        ("name\n", "it has no pools"),
        ("name\nx\n", "line 2: pool x has no nodes in the trace"),
        ("name\na\na\n", "line 3: a is in line 2 already"),
        ("name\nb\n", "line 2: pool b has nodes of 2 kinds"),
        ("name,like\na,z\n", "line 2: pool a: there is no node z"),
        (
            "name,like\n*,z\n",
            "line 2: * makes a pool of each kind of node, and they are not all like z",
        ),
        ("name,nodes_min,nodes_max\na,3,2\n", "line 2: pool a: at most 2 nodes, and at least 3"),
        ("name,nodes_min\na,-1\n", "line 2: nodes_min is negative"),
        ("name,nodes_max\na,30000\n", "line 2: pool a: 30000 nodes; at most 20000"),
        ("name,start_s\na,soon\n", "line 2: start_s is not a number: 'soon'"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "pools.csv"
    file.write_text(text)
    with pytest.raises(TraceInvalid, match=r"pools\.csv") as refused:
        read_pools(file, NODES, Complaints())
    assert words in refused.value.what


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceMissing):
        read_pools(tmp_path / "pools.csv", NODES, Complaints())


def said(capsys: pytest.CaptureFixture[str], *command: str, is_wrong: bool = False) -> str:
    with pytest.raises(SystemExit) as ended:
        main(command)
    out, err = capsys.readouterr()
    assert bool(ended.value.code) is is_wrong
    return err if is_wrong else out


def test_the_command_shows_what_was_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nodes.csv").write_text(
        "name,cpu_milli,memory_mib,gpus,pool\nn1,8000,1024,2,cloud\nn2,8000,1024,2,cloud\n"
    )
    (tmp_path / "jobs.csv").write_text(
        "name,gpus,submitted_s,duration_s\nj,2,0,3600\nk,1,4000,3600\n"
    )
    pools = tmp_path / "pools.csv"
    pools.write_text("name,start_s,idle_s\ncloud,60,300\n")
    command = ("sim", "run", str(tmp_path), "--live", "--pools", str(pools))
    shown = said(capsys, *command)
    assert "NODE-HOURS" in shown
    assert [line.split()[:4] for line in shown.splitlines() if line.startswith("cloud")] == [
        ["cloud", "0-2", "1", "2"]
    ]
    [use] = json.loads(said(capsys, *command, "-o", "json"))["live"]["pools"]
    assert use["started"] == 2
    for wrong in (
        ["sim", "run", str(tmp_path), "--pools", str(pools)],
        ["sim", "run", str(tmp_path / "jobs.csv"), "--pools", str(pools)],
    ):
        assert "--pools" in said(capsys, *wrong, is_wrong=True)
