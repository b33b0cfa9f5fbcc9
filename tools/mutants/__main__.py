"""Puts small mistakes into the code, and counts those that the nearest tests do not notice.

    python -m tools.mutants [--seed 1] [--count 40] [--jobs 2] [--only WORD]

$NATIVE is the native build. The count goes to bench/results/latest.json as `mutants_alive`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tools.mutants.mutant import Fate, Mutant
from tools.mutants.patches import patches
from tools.mutants.workshop import Workshop

from bench.figure import RESULTS, Figure, save, table


def judge_all(mutants: Sequence[Mutant], jobs: int, native: Path) -> dict[str, Fate]:
    """The fate of each, by name."""
    with tempfile.TemporaryDirectory(prefix="moiety-mutants-") as folder:
        free: SimpleQueue[Workshop] = SimpleQueue()
        passed: set[tuple[str, ...]] = set()
        for number in range(jobs):
            (Path(folder) / str(number)).mkdir()
            free.put(Workshop(Path(folder) / str(number), native, passed))

        def judge(mutant: Mutant) -> Fate:
            workshop = free.get()
            try:
                fate = workshop.judge(mutant)
            finally:
                free.put(workshop)
            print(f"{fate.value:>9}  {mutant.name}", flush=True)
            return fate

        with ThreadPoolExecutor(jobs) as pool:
            fates = pool.map(judge, mutants)
            return {each.name: fate for each, fate in zip(mutants, fates, strict=True)}


def figure(fates: dict[str, Fate], seed: int) -> Figure:
    """How many live; the note has the seed and their names."""
    tried = {name: fate for name, fate in fates.items() if fate is not Fate.UNKNOWN}
    alive = [name for name, fate in tried.items() if fate is Fate.ALIVE]
    hung = sum(fate is Fate.TIMED_OUT for fate in tried.values())
    note = f"seed {seed}, {len(tried)} tried, {hung} of them until time was up"
    note += "".join(f"; {name}" for name in alive)
    return Figure(
        "mutants_alive", len(alive), "mutants", None, "lower", "cpu", len(tried), note=note
    )


def main() -> int:
    """All patches, and a sample."""
    from tools.mutants.sample import sample  # it needs cosmic-ray, and what else is here does not

    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--count", type=int, default=40, help="mistakes in Python modules (40)")
    parser.add_argument("--jobs", type=int, default=2, help="tests that run at the same time (2)")
    parser.add_argument("--only", default="", help="only mistakes with this word in their names")
    chosen = parser.parse_args()
    mutants = [*sample(chosen.seed, chosen.count), *patches()]
    mutants = [mutant for mutant in mutants if chosen.only in mutant.name]
    fates = judge_all(mutants, chosen.jobs, Path(os.environ["NATIVE"]).resolve())
    found = figure(fates, chosen.seed)
    if not chosen.only:
        save([found])
        print(f"written to {RESULTS}")
    print(table([found]))
    unknown = [name for name, fate in fates.items() if fate is Fate.UNKNOWN]
    for name in unknown:
        print(f"not tried, because its tests fail without it as well: {name}")
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
