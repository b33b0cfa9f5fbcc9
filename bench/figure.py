"""One measured number, with what it is compared with."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(
    os.environ.get("MOIETY_BENCH_RESULTS")
    or Path(__file__).resolve().parent / "results" / "latest.json"
)


@dataclass(frozen=True)
class Figure:
    """A figure that `make bench` prints and keeps.

    `bar` is what it should reach (None: reported only), `better` says in which direction, and
    `baseline` is the same measurement without moiety, from the same run.
    """

    name: str
    value: float
    unit: str
    bar: float | None
    better: str
    device: str
    samples: int
    baseline: float | None = None
    note: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the bar is reached."""
        if self.bar is None:
            return True
        return self.value <= self.bar if self.better == "lower" else self.value >= self.bar


def save(figures: Sequence[Figure]) -> None:
    """Write them to results/latest.json; figures of other scripts in it are kept."""
    RESULTS.parent.mkdir(exist_ok=True)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    names = {figure.name for figure in figures}
    kept = [entry for entry in kept if entry["name"] not in names]
    RESULTS.write_text(json.dumps(kept + [asdict(f) for f in figures], indent=2) + "\n")


def table(figures: Sequence[Figure]) -> str:
    """The figures as a table for people."""
    rows = [("figure", "value", "bar", "without moiety", "device", "samples", "")]
    for f in figures:
        sign = "<=" if f.better == "lower" else ">="
        rows.append(
            (
                f.name,
                f"{f.value:.4g} {f.unit}",
                "-" if f.bar is None else f"{sign} {f.bar:g}",
                "-" if f.baseline is None else f"{f.baseline:.4g} {f.unit}",
                f.device,
                str(f.samples),
                ("ok" if f.is_met else "NOT MET") + (f"; {f.note}" if f.note else ""),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
