"""What Slurm's programs refuse, in Slurm's words where it has them."""

from __future__ import annotations

from moiety.model.errors import BadArgument


class JobRefused(BadArgument):
    """A job that cannot be submitted as it is; `what` says why."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)


class OptionRefused(JobRefused):
    """An option that does not exist, or a value that an option cannot have."""
