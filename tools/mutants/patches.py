"""Mistakes that were once made by hand, in C and in Python: patches.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from tools.mutants.areas import ROOT
from tools.mutants.mutant import Mutant

TABLE: Final = Path(__file__).with_name("patches.toml")


class Stale(Exception):
    """A patch does not apply any more."""


def patches() -> list[Mutant]:
    """All of them; raises Stale for one whose line is not there exactly once."""
    return [_patch(name, **entry) for name, entry in tomllib.loads(TABLE.read_text()).items()]


def _patch(name: str, file: str, right: str, wrong: str, tests: str) -> Mutant:
    text = (ROOT / file).read_text()
    if text.count(right) != 1:
        raise Stale(f"{TABLE.name}: {name}: {file} has its line {text.count(right)} times")
    return Mutant(name, file, text.replace(right, wrong), [tuple(tests.split())])
