"""`make soak`: faults for long, kept in results/latest.json. Exit code 1: something was lost."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import faults
from bench.figure import RESULTS, save, table

SCHEDULES = 10_000
DAYS = 1_000_000
"""Of one seed at most: another seed has other days."""
LOST = ("faults_with_loss", "virtual_schedules_lost")


def main() -> int:
    """Real processes for so many seconds, then so many virtual schedules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--seed", type=int, default=1, help="of who is struck when, and first day")
    chosen = parser.parse_args()
    figures = faults.real(chosen.seconds, chosen.seed)
    save(figures)  # at once: what comes after it takes long
    print(table(figures), flush=True)
    more = faults.virtual(chosen.schedules, bar=SCHEDULES, first=(chosen.seed - 1) * DAYS)
    save(more)
    print(table(more))
    print(f"written to {RESULTS}")
    lost = [f for f in figures + more if f.name in LOST and not f.is_met]
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
