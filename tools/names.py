"""Finds public classes of the product that have the same name.

A name that is two things cannot be searched for. Classes whose names begin with an underscore are
private to their module; moiety.testing is no part of the product, and protoc made
moiety.kube.protocol.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ROOT / "src" / "moiety"
LEFT_OUT = (PRODUCT / "testing", PRODUCT / "kube" / "protocol")


def classes() -> dict[str, list[str]]:
    """The files of each public class, by its name."""
    found = defaultdict(list)
    for file in sorted(PRODUCT.rglob("*.py")):
        if any(folder in file.parents for folder in LEFT_OUT):
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(ROOT)))
    return found


def main() -> int:
    twice = {name: files for name, files in sorted(classes().items()) if len(files) > 1}
    for name, files in twice.items():
        print(f"{name} is {len(files)} classes: {', '.join(files)}")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
