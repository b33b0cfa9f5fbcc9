"""The table of what works names only what exists, and the page is made of it."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
RECORDED = ROOT / "tests" / "traces" / "recorded"


def known() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((ROOT / "docs" / "compatibility.toml").read_text())[
        "known"
    ]
    return found


def functions_of(path: Path) -> set[str]:
    if not path.exists():
        return set()
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_test_that_is_named_exists() -> None:
    named = [one["what"] for one in known() if one["by"] == "test"]
    assert named
    missing = [
        what for what in named
        if what.partition("::")[2] not in functions_of(ROOT / what.partition("::")[0])
    ]  # fmt: skip
    assert missing == []


def test_the_traces_that_are_named_are_those_that_there_are() -> None:
    named = {one["what"] for one in known() if one["by"] == "trace"}
    assert named == {path.name.removesuffix(".calls.xz") for path in RECORDED.glob("*.calls.xz")}


def test_how_something_is_known_is_one_of_three_ways_and_a_simulated_card_is_no_real_one() -> None:
    for one in known():
        assert one["by"] in ("test", "trace", "gpu"), one
        assert set(one["driver"]) <= {"12.4", "13.0", "real"}, one
        assert ("real" in one["driver"]) == (one["by"] == "gpu"), one


def test_the_page_is_what_the_table_says() -> None:
    command = [sys.executable, str(ROOT / "tools" / "compatibility.py"), "--check"]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0
