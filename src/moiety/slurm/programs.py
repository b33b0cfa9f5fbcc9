"""The table of Slurm's programs, and how each of them ends."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from moiety.model.errors import MoietyError
from moiety.slurm.errors import OptionRefused
from moiety.version import __version__

PROGRAMS: Final = {
    "sbatch": "moiety.slurm.submit.sbatch",
    "srun": "moiety.slurm.step.srun",
    "salloc": "moiety.slurm.step.salloc",
    "squeue": "moiety.slurm.show.squeue",
    "scancel": "moiety.slurm.show.scancel",
    "sacct": "moiety.slurm.show.sacct",
    "sinfo": "moiety.slurm.show.sinfo",
    "scontrol": "moiety.slurm.show.scontrol",
}
"""Each is a module with `main(arguments) -> exit code`."""
SUBMITS: Final = ("sbatch", "srun", "salloc")
WRONG_OPTION: Final = 255
"""The exit code of these for an option that makes no sense."""
VERSION: Final = "22.05.8"
"""The Slurm whose words these are."""


def main(name: str, arguments: Sequence[str]) -> NoReturn:
    """Run one program; never returns. Errors are said as Slurm says them, with its exit codes."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if name not in PROGRAMS:
        print(f"moiety: {name!r} is none of Slurm's programs", file=sys.stderr)
        sys.exit(64)
    if list(arguments) in (["--version"], ["-V"]):
        print(f"slurm {VERSION} (moiety {__version__})")
        sys.exit(0)
    try:
        code: int = importlib.import_module(PROGRAMS[name]).main(list(arguments))
        sys.stdout.flush()
    except MoietyError as error:
        if os.environ.get("MOIETY_DEBUG") == "1":
            raise
        print(f"{name}: error: {error.what}", file=sys.stderr)
        if error.hint:
            print(f"{name}: error: try: {error.hint}", file=sys.stderr)
        sys.exit(WRONG_OPTION if name in SUBMITS and isinstance(error, OptionRefused) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else error
        print(f"{name}: error: {said}", file=sys.stderr)
        sys.exit(1)
    sys.exit(code)
