"""What `srun` says of a step while it runs and ends, in Slurm's words."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from moiety.slurm.show import jobids

ABORTED: Final = "Job step aborted: Waiting up to 32 seconds for job step to finish."


@dataclass(frozen=True, slots=True)
class StepNotes:
    """Writes to the errors of this process."""

    program: str = "srun"
    host: str = "localhost"
    step_id: str = ""
    """`12.0`; empty: what runs is no step, but the command of `salloc`."""
    is_quiet: bool = False
    """With `-Q` only errors are said."""

    def say(self, text: str) -> None:
        """One line."""
        print(f"{self.program}: {text}", file=sys.stderr, flush=True)

    def _tell(self, text: str) -> None:
        if not self.is_quiet:
            self.say(text)

    def ended(self, ends: Iterable[tuple[int, int]]) -> None:
        """Processes that ended at once, each by its rank and code: below 0 is a signal."""
        groups: dict[int, list[int]] = {}
        for rank, code in ends:
            groups.setdefault(code, []).append(rank)
        for code, ranks in sorted(groups.items(), key=lambda each: min(each[1])):
            if not code:
                continue
            how = signal.strsignal(-code) if code < 0 else f"Exited with exit code {code}"
            some = f"task{'s' if len(ranks) > 1 else ''} {jobids.ranges(ranks)}"
            self.say(f"error: {self.host}: {some}: {how}")

    def aborted(self) -> None:
        """`scancel` ends the step."""
        self._tell(ABORTED)
        self.cancelled()

    def interrupted(self, codes: Mapping[int, int | None]) -> None:
        """A first interrupt: how each process is, by its rank; None: it runs."""
        self._tell("interrupt (one more within 1 sec to abort)")
        groups: dict[str, list[int]] = {}
        for rank, code in sorted(codes.items()):
            how = "running" if code is None else "exited abnormally" if code else "exited"
            groups.setdefault(how, []).append(rank)
        for how in ("running", "exited abnormally", "exited"):
            if ranks := groups.get(how):
                some = f"task{'s' if len(ranks) > 1 else ''} {jobids.ranges(ranks)}"
                self._tell(f"StepId={self.step_id} {some}: {how}")

    def interrupting(self) -> None:
        """An interrupt is passed on to the processes."""
        if self.step_id:
            self._tell(f"sending Ctrl-C to StepId={self.step_id}")

    def forcing(self) -> None:
        """The step ends, as its user has interrupted it for good."""
        if self.step_id:
            self._tell("forcing job termination")
            self._tell(ABORTED)

    def terminating(self) -> None:
        """A process has failed, and the others end for that."""
        if self.step_id:
            self._tell(f"launch/slurm: _step_signal: Terminating StepId={self.step_id}")
            self.cancelled()

    def cancelled(self) -> None:
        """The processes of the step are asked to end."""
        if self.step_id:
            when = time.strftime("%Y-%m-%dT%H:%M:%S")
            text = f"*** STEP {self.step_id} ON {self.host} CANCELLED AT {when} ***"
            print(f"slurmstepd-{self.host}: error: {text}", file=sys.stderr, flush=True)

    def forced(self, signals: Iterable[int]) -> None:
        """The step is over, and these signals ended processes of it."""
        if self.step_id and {signal.SIGTERM, signal.SIGKILL} & set(signals):
            self._tell(f"Force Terminated StepId={self.step_id}")
