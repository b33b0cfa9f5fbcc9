"""The pages that an agent needs when more than usual happens at once, before that happens.

Programs are moved into host memory when a GPU is full, so a host may be short of memory just when
most is asked of the agent: it is not to wait for the kernel to find a page for it then. Python
takes memory from the system in arenas, and touches their pages only when it needs them.
"""

from __future__ import annotations

import sys
from typing import Final

LARGEST_BYTES: Final = 512
"""A larger object does not come from an arena."""
MOST_BYTES: Final = 2 << 20
"""More than the free part of a ready agent's arenas; Python gives the surplus back."""


def touch(size: int = MOST_BYTES) -> None:
    """Let there be pages behind all of the arenas that Python has begun, up to `size` bytes."""
    length = LARGEST_BYTES - sys.getsizeof(b"")
    _kept = [bytes(length) for _ in range(size // LARGEST_BYTES)]
