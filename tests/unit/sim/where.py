"""Where the large traces are, which do not come with the source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[3].parent / "shared" / "data"
DATA = Path(os.environ.get("MOIETY_DATA") or BESIDE)
OPENB = DATA / "openb"

needs_openb = pytest.mark.skipif(
    not (OPENB / "nodes.csv").exists(),
    reason=f"the published traces are not in {OPENB} (MOIETY_DATA says where else)",
)
