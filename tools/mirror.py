"""Checks that each module of src/moiety has a test file: tests/unit/<package>/test_<module>.py.

Where the tests of a module are elsewhere, tools/mirror.toml says where. Its table [imported] names
a test file that imports the module; [driven] names one that reaches the module from outside, and
what it reaches it by (a command, a harness, another module), which must stand in that file.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
TABLE = ROOT / "tools" / "mirror.toml"
LEFT_OUT = ("moiety.testing.", "moiety.kube.protocol.")
"""the fakes, which tests are made of, and what protoc makes"""


def modules() -> Iterator[str]:
    """Every module that needs tests; a package's `__init__` holds its charter only."""
    for file in sorted((SOURCE / "moiety").rglob("*.py")):
        name = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        if file.name != "__init__.py" and not name.startswith(LEFT_OUT):
            yield name


def own_tests(module: str) -> list[Path]:
    """Where its test file would be: below its folder's name, or below its package's."""
    _, *folders, name = module.split(".")
    places = {"/".join(folders), "/".join(folders[:1])}
    return [ROOT / "tests" / "unit" / place / f"test_{name}.py" for place in sorted(places)]


def imports(file: Path) -> set[str]:
    """Every module that a file names in an import, also within its functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def complaint(module: str, table: dict[str, Any]) -> str | None:
    """What is wrong with the tests of one module."""
    imported, driven = table["imported"].get(module), table["driven"].get(module)
    if any(file.exists() for file in own_tests(module)):
        if imported or driven:
            return "has a test file of its own: take it out of tools/mirror.toml"
        return None
    if imported:
        file = ROOT / imported
        if not file.exists():
            return f"has its tests in {imported}, which is not there"
        return None if module in imports(file) else f"is not imported by {imported}"
    if driven:
        file = ROOT / driven["by"]
        if not file.exists():
            return f"has its tests in {driven['by']}, which is not there"
        text = file.read_text()
        return None if driven["through"] in text else f"{driven} does not say {driven['through']}"
    return f"has no test file: write {own_tests(module)[-1].relative_to(ROOT)}"


def main() -> int:
    table = tomllib.loads(TABLE.read_text())
    known = list(modules())
    complaints = [f"{each} {no}" for each in known if (no := complaint(each, table))]
    named = {*table["imported"], *table["driven"]}
    complaints += [f"{each} is in tools/mirror.toml and not there" for each in named - {*known}]
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
