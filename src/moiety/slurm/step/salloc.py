"""`salloc`: hold GPUs for a shell or a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from moiety.slurm.getopt import Reader
from moiety.slurm.pool import SlurmPool
from moiety.slurm.step.allocation import Allocation
from moiety.slurm.step.notes import StepNotes
from moiety.slurm.step.runner import StepRules, StepRun, StepTask
from moiety.slurm.submit import sending
from moiety.slurm.submit.request import request_of

NAME = "interactive"


def main(arguments: list[str]) -> int:
    """Hold a job while a command runs; the command's exit code."""
    if arguments[:1] in (["-h"], ["--help"], ["--usage"]):
        print("Usage: salloc [OPTIONS...] [COMMAND [ARGUMENTS...]]")
        return 0
    reader = Reader("salloc")
    typed, command = reader.read(arguments)
    pool = SlurmPool()
    found = reader.of_environment(os.environ) + typed
    request = request_of(found, sending.machine_of(pool.get("/status")))
    said = request.said
    shell = os.environ.get("SHELL", "/bin/sh")
    words: Sequence[str] = command or [shell]
    name = said.get("job-name") or (os.path.basename(command[0]) if command else NAME)
    held = Allocation("salloc", request, name, "")
    code = 1
    try:
        immediate = float(said["immediate"] or 1) if "immediate" in said else None
        variables = held.until_running("salloc", immediate)
        _say(said, f"Granted job allocation {held.number}")
        task = StepTask(0, words, variables, None, None, None)
        rules = StepRules(has_terminal=os.isatty(0), passes_interrupts=True, hangs_up=not command)
        notes = StepNotes("salloc", request.text("nodelist") or "salloc")
        run = StepRun([task], rules, notes=notes)
        code = run.run(held.watch())
    except KeyboardInterrupt:
        held.cancel()
        return 130
    finally:
        held.release(code)
    _say(said, f"Relinquishing job allocation {held.number}")
    return code


def _say(said: object, text: str) -> None:
    if "quiet" not in said:  # type: ignore[operator]
        print(f"salloc: {text}", file=sys.stderr, flush=True)
