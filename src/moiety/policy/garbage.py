"""Keeps Python from looking for garbage where there is none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Python does not look for garbage meanwhile.

    Reading a snapshot makes hundreds of thousands of objects that stay. Python would go through
    them, and all that the caller has, again and again: for a third of the time of a large cycle.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
