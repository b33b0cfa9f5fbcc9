"""Checks that every package says in its docstring what it owns, and what it never touches."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "moiety"
OWNS = ("owns",)
REFRAINS = ("never", "nothing")


def complaint(file: Path) -> str | None:
    """What is missing in one `__init__.py`."""
    charter = ast.get_docstring(ast.parse(file.read_text())) or ""
    if not charter:
        return "has no docstring"
    if not any(word in charter for word in OWNS):
        return "does not say what the package owns"
    if not any(word in charter for word in REFRAINS):
        return "does not say what the package never does"
    return None


def main() -> int:
    folders = {file.parent for file in PACKAGE.rglob("*.py")}
    complaints = []
    for folder in sorted(folders):
        charter = folder / "__init__.py"
        problem = complaint(charter) if charter.exists() else "is missing"
        if problem:
            complaints.append(f"{charter.relative_to(PACKAGE.parent)} {problem}")
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
