"""How true it is what the engine says of begins, and what suspension changes; on ITP traces."""

from __future__ import annotations

from bench.figure import Figure
from bench.policy_jct import DATA, HOUR, ITP, RESTART_S
from moiety.sim.gangs import read_gangs
from moiety.sim.outcome import run_gangs
from moiety.sim.runs import RestartCost
from moiety.sim.starts import StartQuestions
from moiety.sim.suspension import Stops

CLUSTER = "06"
"""The constants were chosen on it."""
SAMPLED = 2000
COST = RestartCost(RESTART_S)


def measure() -> list[Figure]:
    """Errors, coverage, the interval score over that of recent waits, and JCT with suspension."""
    if not (DATA / "itp").is_dir():
        return []
    trace = read_gangs(DATA / "itp" / f"cluster{CLUSTER}.csv", ITP[CLUSTER], lenient=True)
    device = f"CPU; ITP {CLUSTER}, {ITP[CLUSTER]} GPUs"
    figures = []
    for is_known in (True, False):
        questions = StartQuestions(SAMPLED, is_known)
        found = run_gangs(trace, "default", COST, questions=questions).starts
        assert found is not None
        assert found.error_median is not None
        assert found.error_mean is not None
        assert found.coverage is not None
        assert found.score_ratio is not None
        end = "_known" if is_known else ""
        note = f"mean {found.error_mean:.3f}; {SAMPLED} sampled, those that waited over 60 s"
        for name, value, bar, better, said in (
            ("error", found.error_median, 0.25 if is_known else None, "lower", f"median; {note}"),
            (
                "coverage",
                found.coverage,
                None,
                "higher",
                "of 80 % intervals; 0.75 to 0.85",
            ),
            (
                "score_ratio",
                found.score_ratio,
                None if is_known else 0.8,
                "lower",
                "over quantiles of recent waits",
            ),
        ):
            figures.append(
                Figure(
                    f"policy_eta_{name}{end}",
                    round(value, 4),
                    "",
                    bar=bar,
                    better=better,
                    device=device,
                    samples=found.waited,
                    note=said,
                )
            )
    kill = run_gangs(trace, "default", COST, stops=Stops.KILL)
    suspend = run_gangs(trace, "default", COST, stops=Stops.SUSPEND)
    figures.append(
        Figure(
            "policy_jct_suspend_ratio",
            round(suspend.completion_mean_s / kill.completion_mean_s, 4),
            "x",
            bar=None,
            better="lower",
            device=device,
            samples=1,
            note=f"{suspend.completion_mean_s / HOUR:.2f} h over "
            f"{kill.completion_mean_s / HOUR:.2f} h where stopped jobs are killed; "
            f"lost {suspend.lost_gpu_hours:,.0f} and {kill.lost_gpu_hours:,.0f} GPU hours; "
            f"{suspend.preemptions_per_job:.2f} and {kill.preemptions_per_job:.2f} stops a job",
        )
    )
    return figures
