"""Stops that have their price: killed, or suspended to the memory of the host."""

from __future__ import annotations

from moiety.sim.engine import Engine
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.outcome import GangOutcome, run_gangs
from moiety.sim.runs import RestartCost, Run, replay
from moiety.sim.seats import Nodes
from moiety.sim.suspension import GIB, StoppingPool, Stops, SuspensionCost

COST = SuspensionCost(20 * GIB, 100 * GIB, 1.0 * GIB, 0.5 * GIB)
"""20 s out and 20 s in for each GPU, and 40 s over the network."""


def world(suspension: SuspensionCost | None = COST) -> StoppingPool:
    return StoppingPool(Nodes((2, 2)), RestartCost(30.0, 1000.0), suspension)


def begun(pool: StoppingPool, gpus: int = 2, node: int = 0, number: int = 0) -> Run:
    run = Run(GangJob(f"g{number}", gpus, 0.0, 5000.0), number, 5000.0)
    pool.wait(run)
    pool.start(run, ((node, gpus),))
    return run


def test_a_gang_that_is_killed_loses_what_it_did_since_its_checkpoint() -> None:
    pool = world(None)
    run = begun(pool)
    pool.now_s = 2500.0
    pool.stop(run, suspends=True)
    assert (run.attained_s, run.left_s, run.lost_s, run.suspensions) == (2000, 3000, 500, 0)


def test_a_gang_that_is_suspended_keeps_its_work_and_comes_back_at_the_links_speed() -> None:
    pool = world()
    run = begun(pool)
    pool.now_s = 2500.0
    pool.stop(run, suspends=True)
    assert (run.attained_s, run.lost_s, run.suspensions) == (2500, 0, 1)
    assert pool.host_free()[0] == 60 * GIB
    pool.now_s = 3000.0
    pool.start(run, ((0, 2),))
    assert run.since_s == 3020.0
    assert pool.host_free()[0] == 100 * GIB


def test_on_another_node_its_memory_crosses_the_network_first() -> None:
    pool = world()
    run = begun(pool)
    pool.stop(run, suspends=True)
    pool.now_s = 3000.0
    pool.start(run, ((1, 2),))
    assert run.since_s == 3000.0 + 2 * 40 + 20


def test_who_comes_next_waits_until_the_memory_has_gone() -> None:
    pool = world()
    run = begun(pool)
    pool.now_s = 100.0
    pool.stop(run, suspends=True)
    assert begun(pool, number=1).since_s == 120.0


def test_what_the_host_has_no_memory_for_is_killed() -> None:
    pool = world(SuspensionCost(20 * GIB, 39 * GIB, 1.0 * GIB, 0.5 * GIB))
    run = begun(pool)
    pool.now_s = 2500.0
    pool.stop(run, suspends=True)
    assert (run.suspensions, run.lost_s) == (0, 500)


def test_a_node_that_fails_takes_what_was_suspended_there() -> None:
    pool = world()
    run = begun(pool)
    pool.now_s = 2500.0
    pool.stop(run, suspends=True)
    pool.fallen(0)
    assert (run.attained_s, run.lost_s) == (2000, 500)
    assert pool.host_free()[0] == 100 * GIB


def contended(stops: Stops, gpu_bytes: int | None = None) -> GangOutcome:
    """A long gang of a user yields to short ones of another, time and again."""
    gangs = [GangJob("long", 8, 0.0, 90000.0, "", "x", gpu_bytes)]
    gangs += [
        GangJob(f"s{at}", 8, 2000.0 + 5000.0 * at, 100.0, "", "y", gpu_bytes) for at in range(12)
    ]
    trace = GangTrace("t", tuple(gangs), (8,))
    return run_gangs(trace, "default", RestartCost(30.0), stops=stops)


def test_a_replay_that_suspends_loses_nothing_where_one_that_kills_does() -> None:
    kill, suspend = contended(Stops.KILL), contended(Stops.SUSPEND)
    assert kill.preemptions_per_job > 0
    assert kill.suspensions_per_job == 0
    assert kill.lost_gpu_hours
    assert suspend.suspensions_per_job == suspend.preemptions_per_job > 0
    assert suspend.lost_gpu_hours == 0
    assert suspend.completion_mean_s < kill.completion_mean_s


def test_a_job_can_say_that_it_cannot_be_suspended() -> None:
    found = contended(Stops.SUSPEND, 0)
    assert found.suspensions_per_job == 0
    assert found.lost_gpu_hours


def test_gangs_that_kill_each_other_get_on() -> None:
    """They did so for ever: after each kill a gang was worth as much as a new one."""
    gangs = tuple(GangJob(f"g{at}", 8, 60.0 * at, 4 * 3600.0) for at in range(3))
    whole = GangTrace("three", gangs, (8,))
    pool = StoppingPool(Nodes((8,)), RestartCost(30.0), None)
    runs, _ = replay(whole, Engine(), RestartCost(30.0), pool=pool)
    assert max(run.ended_s for run in runs) < 16 * 3600.0
    assert sum(run.preemptions for run in runs) < 6
