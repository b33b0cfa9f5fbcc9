"""What `scancel` asks of an `srun` that runs a step: it is told by a signal.

`srun` passes on the signals that it can catch. Others, and the end of the step, have a real-time
signal each.
"""

from __future__ import annotations

import signal
from typing import Final

CANCEL: Final = signal.SIGRTMIN + 3
"""End the step."""
INSTEAD_OF: Final[dict[int, int]] = {
    signal.SIGKILL: signal.SIGRTMIN + 4,
    signal.SIGSTOP: signal.SIGRTMIN + 5,
}
"""By the signal that the processes of the step are to get: what `srun` is sent."""
ASKED_BY: Final[dict[int, int]] = {asked: number for number, asked in INSTEAD_OF.items()}
"""The other way round."""
