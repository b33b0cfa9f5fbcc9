"""Makes docs/compatibility.md of compatibility.toml:  python tools/compatibility.py [--check]"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA, PAGE = ROOT / "docs" / "compatibility.toml", ROOT / "docs" / "compatibility.md"
DRIVERS = ("12.4", "13.0", "real")
HEAD = """# What is known to work

Each cell says how it is known. **test**: on simgpu, under moiety, by the test that is named.
**trace**: on simgpu, a recorded program whose every call gave the recorded result, alone and, with
the driver that moiety's tests use (13.0), while others took turns with it ([how](traces.md)).
**GPU**: on a real one, which is named. **?**: not known, which is no claim that it fails.

No real GPU could be had so far. On one, `make gpu-check` tries all of it in ten minutes
([how](development.md#on-a-machine-with-a-gpu)).

This page is made of `compatibility.toml` by `python tools/compatibility.py`.
"""


def load() -> dict[str, Any]:
    """The data.

    Raises:
        tomllib.TOMLDecodeError: it cannot be read.
    """
    return tomllib.loads(DATA.read_text())


def how(entry: Mapping[str, Any]) -> str:
    """One cell."""
    if entry["by"] == "test":
        path, _, _ = entry["what"].partition("::")
        return f"[test](../{path})"
    return f"trace `{entry['what']}`" if entry["by"] == "trace" else f"GPU: {entry['what']}"


def page(data: Mapping[str, Any]) -> str:
    """The whole text."""
    parts = [HEAD]
    for framework in data["order"]:
        parts.append(f"\n## {framework}\n")
        if said := data["never"].get(framework):
            parts.append(f"\n{said}\n")
        entries = [one for one in data["known"] if one["framework"] == framework]
        if not entries:
            continue
        parts.append("\n| | driver 12.4 | driver 13.0 | a real driver |\n|---|---|---|---|\n")
        rows: dict[str, dict[str, list[str]]] = {}
        for one in entries:
            cells = rows.setdefault(one["feature"], {driver: [] for driver in DRIVERS})
            for driver in one["driver"]:
                cells[driver].append(how(one))
        for feature, cells in rows.items():
            shown = (", ".join(cells[driver]) or "?" for driver in DRIVERS)
            parts.append(f"| {feature} | {' | '.join(shown)} |\n")
    return "".join(parts)


def main() -> int:
    """Write the page; with --check only say whether it is as it should be."""
    text = page(load())
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
