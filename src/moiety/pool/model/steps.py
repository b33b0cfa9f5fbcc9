"""The steps of a workload: what one of its processes started as one, such as with `srun`."""

from __future__ import annotations

from typing import Final

import msgspec

from moiety.model.cards import COUNT_MAX
from moiety.model.errors import BadArgument
from moiety.pool.model.records import BEGIN_MAX_S, CPUS_MAX, PROCESSES_MAX, SIGNAL_MAX

STEPS_MAX: Final = 40_000
"""How many steps one start of a workload may have, as Slurm's MaxStepCount."""
NAME_MAX: Final = 1024
COMMAND_MAX: Final = 4096
EXIT_MAX: Final = 255


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a workload."""

    number: int
    """Its number in this start of the workload, from 0."""
    name: str
    command: str = ""
    tasks: int = 1
    """How many processes it has."""
    cpus: int = 0
    """How many of the workload's processors it uses."""
    gpus: int = 0
    """How many of the workload's GPUs it uses."""
    began_s: float
    ended_s: float | None = None
    """None: it runs, or the process that started it could not tell how it ended."""
    exit_code: int = 0
    """The highest exit code of its processes."""
    exit_signal: int = 0
    """The signal that ended one of its processes; 0: none did."""


class StepReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step as the process that runs it tells: when it begins, and once more when it has ended."""

    attempt: int
    """The start of the workload that it belongs to."""
    step: StepRow

    def check(self) -> None:
        """Raise BadArgument for values that make no sense."""
        step = self.step
        for number, most, what in (
            (step.number, STEPS_MAX - 1, "number of a step"),
            (step.tasks, PROCESSES_MAX, "number of processes"),
            (step.cpus, CPUS_MAX, "number of processors"),
            (step.gpus, COUNT_MAX, "number of GPUs"),
            (step.exit_code, EXIT_MAX, "exit code"),
            (step.exit_signal, SIGNAL_MAX, "signal"),
        ):
            if not 0 <= number <= most:
                raise BadArgument(f"{number} is no {what}", f"a number from 0 to {most}")
        if len(step.name) > NAME_MAX or len(step.command) > COMMAND_MAX:
            raise BadArgument(
                "the name or the command of the step is too long",
                f"{NAME_MAX} and {COMMAND_MAX} letters at most",
            )
        ended_s = step.began_s if step.ended_s is None else step.ended_s
        if not 0 < step.began_s <= ended_s < BEGIN_MAX_S:
            raise BadArgument("the step ends before it begins", "times in seconds since 1970")
