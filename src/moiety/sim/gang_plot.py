"""Draws replays of gangs: use over load, waiting jobs, completion times, and what queues got."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moiety.sim.outcome import GangOutcome
from moiety.sim.plot import NO_DATE


def draw(outcomes: Sequence[GangOutcome], path: Path) -> None:
    """Four axes, one line for each outcome; the last one has bars of queues, if there are any."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    first = outcomes[0]
    figure, axes = plt.subplots(2, 2, figsize=(12, 8), layout="constrained")
    figure.suptitle(f"{first.trace}: {first.jobs} jobs, {first.nodes} nodes, {first.gpus} GPUs")
    use, wait, times, fair = axes.flat
    for outcome in outcomes:
        hours = [point[0] for point in outcome.timeline]
        loads = sorted(
            (min(400.0, 100 * wanted / max(there, 1)), 100 * used / max(there, 1))
            for _, used, there, wanted, _ in outcome.timeline
        )
        use.plot(*_means(loads), label=outcome.order)
        waiting = [point[4] for point in outcome.timeline]
        wait.step(hours, waiting, where="post", label=outcome.order)
        times.plot([max(at, 1.0) / 3600 for at in outcome.completion_s], range(101))
    _label(use, "GPUs asked for (% of all)", "GPUs in use (%)")
    use.legend()
    _label(wait, "hours", "jobs that wait")
    _label(times, "hours from submission to end", "jobs (%)")
    times.set_xscale("log")
    _fairness(fair, outcomes)
    as_text: dict[Any, Any] = {"svg.hashsalt": "moiety", "svg.fonttype": "none"}
    with mpl.rc_context(as_text):
        figure.savefig(path, metadata=NO_DATE if path.suffix == ".svg" else None)
    plt.close(figure)


def _means(loads: Sequence[tuple[float, float]], width: float = 10.0) -> tuple[Any, Any]:
    """The mean use for each step of load."""
    steps: dict[int, list[float]] = {}
    for load, use in loads:
        steps.setdefault(int(load // width), []).append(use)
    at = sorted(steps)
    return [step * width for step in at], [sum(steps[step]) / len(steps[step]) for step in at]


def _label(axes: Any, across: str, up: str) -> None:
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(alpha=0.3)


def _fairness(axes: Any, outcomes: Sequence[GangOutcome]) -> None:
    """What queues had of what they asked for; without queues, waiting against completion."""
    with_queues = [outcome for outcome in outcomes if outcome.queues]
    if with_queues:
        for at, outcome in enumerate(with_queues):
            width = 0.8 / len(with_queues)
            places = [each + at * width for each in range(len(outcome.queues))]
            parts = [100 * queue.satisfied for queue in outcome.queues]
            axes.bar(places, parts, width, label=outcome.order)
        names = [queue.name for queue in with_queues[0].queues]
        axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
        _label(axes, "queue", "had of the GPUs asked for (%)")
        return
    for at, outcome in enumerate(outcomes):
        axes.barh(at, outcome.wait_mean_s / 3600)
    axes.set_yticks(range(len(outcomes)), [outcome.order for outcome in outcomes])
    _label(axes, "hours that a job waits in the mean", "")
