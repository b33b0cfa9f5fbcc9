"""How long gangs take from coming to going, on published traces of Microsoft's clusters.

Nobody tells the default order how long a gang will run; SRTF and its kin know it. The baselines
preempt and move for nothing, the default order pays 30 seconds for each restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from time import process_time

from bench.figure import Figure
from bench.policy_drops import DROPS, SECOND_H, dropped, median_of
from bench.policy_traces import OPENB
from moiety.sim.baselines import baseline
from moiety.sim.by_queue import jain, queues_by_use, satisfied
from moiety.sim.engine import Engine
from moiety.sim.fair_use import FairWatch
from moiety.sim.gangs import GangTrace, read_gangs
from moiety.sim.outcome import run_gangs
from moiety.sim.runs import Order, RestartCost, replay

DATA = OPENB.parent
ITP = {"02": 112, "03": 176, "06": 112}
"""GPUs of each cluster"""
SECOND = {
    "02": (8.11, 121.9, 0.26, 27.0),
    "03": (15.80, 178.0, 0.36, 11.0),
    "06": (10.59, 144.0, 0.33, 6.0),
}
"""What the scheduler had on each cluster that only the simulator had, before the policy engine took
its place (docs/decisions/0057): average JCT and 99th percentile in hours, stops for each job, and
seconds of processor time. A replay of it gave the same in each run."""
SECOND_PHILLY_MIN = 7.0
"""Minutes of processor time that it took for Philly."""
ANCHORS = {"srtf": 193_082, "srsf": 185_022, "tiresias": 347_213}
"""Average JCT in seconds of Muri's trace3 on 8 nodes of 8 GPUs, as published."""
ANCHOR_BAR = 6.0
RESTART_S = 30.0
PHILLY_GPUS = 512
HOUR = 3600.0
ORDERS = ("fifo", "backfill", "sjf", "srtf", "las", "default")


@dataclass(frozen=True)
class Times:
    """Of one replay, in hours."""

    mean: float
    p99: float
    preemptions: float
    cpu_s: float
    """Processor time of the replay."""


def times(trace: GangTrace, order: Order, restart_s: float = 0.0) -> Times:
    """Replay, and count."""
    began_s = process_time()
    runs, _ = replay(trace, order, RestartCost(restart_s))
    cpu_s = process_time() - began_s
    took = sorted(run.ended_s - run.gang.submitted_s for run in runs)
    return Times(
        mean(took) / HOUR,
        took[int(len(took) * 0.99)] / HOUR,
        mean(run.preemptions for run in runs),
        cpu_s,
    )


@cache
def whole(cluster: str) -> GangTrace:
    """The trace of one cluster; jobs larger than the cluster are left out."""
    return read_gangs(DATA / "itp" / f"cluster{cluster}.csv", ITP[cluster], lenient=True)


@cache
def itp(cluster: str) -> dict[str, Times]:
    """Every order on one cluster."""
    trace = whole(cluster)
    found = {name: times(trace, baseline(name)) for name in ORDERS if name != "default"}
    found["default"] = times(trace, Engine(), RESTART_S)
    return found


@cache
def without_some(cluster: str) -> list[dict[str, Times]]:
    """The orders that the bars name, on the trace without some of its jobs, ten times."""
    found = []
    for number in range(DROPS):
        trace = dropped(whole(cluster), cluster, number + 1)
        beside = {name: times(trace, baseline(name)) for name in ("las", "backfill")}
        found.append(beside | {"default": times(trace, Engine(), RESTART_S)})
    return found


def measure() -> list[Figure]:
    """Ratios for each cluster, preemptions, and the anchors that say whether replays are right."""
    if not Path(DATA / "itp").is_dir():
        print(f"bench: the published traces are not in {DATA}: MOIETY_DATA says where else")
        return []
    figures = [_anchor(name, published) for name, published in ANCHORS.items()]
    for cluster in ITP:
        figures += _of(cluster)
    worst = max(itp(cluster)["default"].preemptions for cluster in ITP)
    figures.append(
        Figure(
            "policy_preemptions_per_job",
            round(worst, 3),
            "",
            bar=0.5,
            better="lower",
            device="CPU; ITP 02, 03, 06",
            samples=len(ITP),
            note=f"the most of the three clusters; each costs {RESTART_S:g} s",
        )
    )
    return [*figures, *_philly()]


def _philly() -> list[Figure]:
    """Virtual clusters as queues, on a cluster that is three quarters full in the mean."""
    trace = read_gangs(DATA / "philly" / "philly.csv", PHILLY_GPUS)
    queues = queues_by_use(trace)
    began_s = process_time()
    found = run_gangs(trace, "default", RestartCost(RESTART_S), queues=queues)
    minutes = (process_time() - began_s) / 60
    device = f"CPU; Philly on {PHILLY_GPUS} GPUs, {len(queues)} virtual clusters"
    assert found.quota_broken is not None
    assert found.jain is not None
    assert found.jain_of_due is not None
    assert found.jain_of_due_over_run is not None
    plain = FairWatch(queues, trace.monday_s)
    runs, _ = replay(trace, baseline("backfill"), RestartCost(), watch=plain)
    beside = {
        "": jain(plain.at_each_moment().values()),
        "_over_run": jain(plain.over_the_run().values()),
        "_of_demand": jain(satisfied(runs).values()),
    }
    return [
        Figure(
            "policy_philly_quota_broken",
            found.quota_broken,
            "",
            bar=0,
            better="lower",
            device=device,
            samples=found.jobs,
            note="moments after which a queue waited for GPUs within its quota",
        ),
        Figure(
            "policy_philly_minutes",
            round(minutes, 1),
            "min",
            bar=None,
            better="lower",
            device=device,
            samples=found.jobs,
            note="processor time of the replay; the scheduler that only the simulator had took "
            f"{SECOND_PHILLY_MIN:g} min; average JCT {found.completion_mean_s / HOUR:.2f} h",
        ),
        *(
            Figure(
                f"policy_philly_jain{name}",
                round(index, 4),
                "",
                bar=bar,
                better="higher",
                device=device,
                samples=len(found.queues),
                note=f"{note}; FIFO with backfill, without queues: {beside[name]:.3f}",
            )
            for name, index, bar, note in (
                (
                    "",
                    found.jain_of_due,
                    0.95,
                    "of GPU time had over due: of fair shares (quota and surplus), at each moment; "
                    f"{found.preemptions_per_job:.2f} stops a job",
                ),
                (
                    "_over_run",
                    found.jain_of_due_over_run,
                    None,
                    "the same where more than is due at one moment makes good for less before, "
                    "at most for all of it",
                ),
                (
                    "_of_demand",
                    found.jain,
                    None,
                    "of GPU time had over asked for, where overload counts as unfair; peaks of "
                    "demand are more than twice the cluster",
                ),
            )
        ),
    ]


def _anchor(name: str, published: int) -> Figure:
    trace = read_gangs(DATA / "muri" / "trace3.csv", 64)
    seconds = times(trace, baseline(name)).mean * HOUR
    return Figure(
        f"policy_anchor_{name}_error",
        round(abs(seconds / published - 1) * 100, 2),
        "%",
        bar=ANCHOR_BAR,
        better="lower",
        device="CPU; Muri trace3, 8 nodes of 8 GPUs",
        samples=len(trace.gangs),
        note=f"average JCT {seconds:,.0f} s; published {published:,} s",
    )


def _of(cluster: str) -> list[Figure]:
    found, ten = itp(cluster), without_some(cluster)
    own, las, srtf = found["default"], found["las"], found["srtf"]
    second = Times(*SECOND[cluster])
    device = f"CPU; ITP {cluster}, {ITP[cluster]} GPUs"
    over_las, las_apart = median_of(lambda i: ten[i]["default"].mean / ten[i]["las"].mean)
    over_second, apart = median_of(lambda i: ten[i]["default"].mean / SECOND_H[cluster][i])
    tail, tail_apart = median_of(
        lambda i: ten[i]["default"].p99 / max(ten[i]["backfill"].p99, ten[i]["las"].p99)
    )
    return [
        Figure(
            f"policy_jct_over_las_{cluster}",
            over_las,
            "x",
            bar=1.0,
            better="lower",
            device=device,
            samples=DROPS,
            note=f"{las_apart} without a hundredth of the jobs each; with all of them "
            f"{own.mean:.2f} h, LAS {las.mean:.2f} h: {own.mean / las.mean:.3f}",
        ),
        Figure(
            f"policy_jct_over_second_{cluster}",
            over_second,
            "x",
            bar=1.03,
            better="lower",
            device=device,
            samples=DROPS,
            note=f"{apart} likewise; with all jobs {own.mean:.2f} h, the scheduler that only the "
            f"simulator had {second.mean:.2f} h: {own.mean / second.mean:.3f}; p99 "
            f"{second.p99:.1f} h, {second.preemptions:.2f} stops a job in {second.cpu_s:.0f} s of "
            f"processor time; {own.p99:.1f} h, {own.preemptions:.2f} in {own.cpu_s:.0f} s",
        ),
        Figure(
            f"policy_jct_over_srtf_{cluster}",
            round(own.mean / srtf.mean, 4),
            "x",
            bar=None,
            better="lower",
            device=device,
            samples=1,
            note=f"SRTF, which knows how long everybody runs: {srtf.mean:.2f} h",
        ),
        Figure(
            f"policy_jct_p99_{cluster}",
            round(own.p99, 1),
            "h",
            bar=round(max(found["backfill"].p99, las.p99), 1),
            better="lower",
            device=device,
            samples=1,
            note=f"FIFO with backfill {found['backfill'].p99:.1f} h, LAS {las.p99:.1f} h; over the "
            f"worse of both, without a hundredth of the jobs each: {tail} ({tail_apart})",
        ),
    ]


def table() -> str:
    """For docs/benchmarks.md: the average JCT, and the 99th percentile, in hours."""
    lines = [f"| cluster (GPUs) | {' | '.join(ORDERS)} |", "|---" * (len(ORDERS) + 1) + "|"]
    for cluster, gpus in ITP.items():
        cells = [f"{itp(cluster)[n].mean:.1f} / {itp(cluster)[n].p99:.0f}" for n in ORDERS]
        lines.append(f"| {cluster} ({gpus}) | {' | '.join(cells)} |")
    return "\n".join(lines)
