"""What an agent does so that the kernel ends programs before it, where memory runs out.

Programs that an agent serves outlive it, but stand still until the next one knows them. A program
that the kernel ends stands alone for what it took. The kernel chooses by size and `oom_score_adj`.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

SCORE: Final = -900
"""`oom_score_adj` of an agent. -1000 would exempt it even if it took too much itself."""
MCL_CURRENT: Final = 1
MCL_ONFAULT: Final = 4
"""Linux 4.4"""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def lower_score(file: Path = Path("/proc/self/oom_score_adj")) -> int | None:
    """Lower this process' `oom_score_adj` to SCORE, if it is higher and the kernel allows it.

    Below its value at the start only CAP_SYS_RESOURCE may go. Returns the value that it has now;
    None where it cannot be read.
    """
    try:
        now = int(file.read_bytes())
    except (OSError, ValueError):
        return None
    if now <= SCORE:
        return now
    try:
        file.write_text(f"{SCORE}\n")
    except OSError:
        return now
    return SCORE


def lock_pages() -> bool:
    """Keep the pages that this process has now, and those of its code that it reads later.

    Returns False where that is not allowed: it needs CAP_IPC_LOCK, or a limit of locked memory
    (RLIMIT_MEMLOCK) above all that is mapped. Memory that is mapped later is not locked.
    """
    return bool(_libc.mlockall(MCL_CURRENT | MCL_ONFAULT) == 0)
