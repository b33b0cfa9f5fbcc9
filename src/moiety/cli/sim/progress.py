"""How far a simulation is, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def bar(length: int, label: str) -> Iterator[Callable[[int], None]]:
    """A bar on standard error if that is a terminal; call the yielded function with each step."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as shown:
        yield shown.update
