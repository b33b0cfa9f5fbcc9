"""The environment of child processes that run a module of `tests.support`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
"""The checkout."""


def with_checkout(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy in which `python -m tests.support.X` finds X: PYTHONPATH begins with the checkout."""
    known = environment.get("PYTHONPATH", "")
    return {**environment, "PYTHONPATH": os.pathsep.join(p for p in (str(ROOT), known) if p)}
