"""Prints what pyproject.toml asks for, one line each: requirements.py [EXTRA]...

The product's own dependencies come first. It needs nothing but Python: it runs before anything
is installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

OWN_EXTRAS = re.compile(r"moiety\[([^]]+)\]")


def requirements(project: dict[str, object], extras: list[str]) -> list[str]:
    """Dependencies and those of the extras, with the extras that they name themselves."""
    dependencies = project["dependencies"]
    optional = project["optional-dependencies"]
    assert isinstance(dependencies, list)
    assert isinstance(optional, dict)
    found = list(dependencies)
    todo = list(extras)
    for extra in todo:
        for line in optional[extra]:
            own = OWN_EXTRAS.fullmatch(line)
            if own:
                todo += [name for name in own[1].split(",") if name not in todo]
            else:
                found.append(line)
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    pyproject = tomllib.loads(Path("pyproject.toml").read_text())
    print("\n".join(requirements(pyproject["project"], sys.argv[1:])))
