"""Writes docs/openapi.json anew: the document of the pool's API."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from moiety.pool.api.app import openapi  # noqa: E402  it needs the path

if __name__ == "__main__":
    (ROOT / "docs" / "openapi.json").write_bytes(openapi())
