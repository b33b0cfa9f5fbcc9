"""`make bench` on this card: those of its figures that a real GPU can give."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.gpu.holds.setting import ROOT, Setting, Skip

SCRIPTS = ("fit", "makespan")


def bench(setting: Setting) -> str:
    """The figures of `make bench` with the card as their device (nothing fails by a figure)."""
    if setting.simulated:
        raise Skip("make bench does this on simgpu")
    results = setting.folder / "figures.json"
    command = [sys.executable, str(ROOT / "bench" / "run.py"), *SCRIPTS]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT,
        env={**setting.environment(), "MOIETY_BENCH_RESULTS": str(results)},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-1500:]
    found = json.loads(Path(results).read_text())
    return "; ".join(
        f"{one['name']} {one['value']:.4g} {one['unit']} ({one['device']})" for one in found
    )
