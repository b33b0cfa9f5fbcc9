"""`sbatch`: give the pool a script to run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from moiety.slurm.errors import JobRefused
from moiety.slurm.getopt import Found, Reader
from moiety.slurm.pool import SlurmPool
from moiety.slurm.submit import sending
from moiety.slurm.submit.job import BatchJob, batch_job
from moiety.slurm.submit.request import MachineSize
from moiety.slurm.submit.script import SCRIPT_MAX, Script, read, wrapped

USAGE = (
    "Usage: sbatch [OPTIONS...] SCRIPT [ARGUMENTS...]\n"
    "Gives the script to the pool of this machine. `moiety slurm check SCRIPT` shows what becomes\n"
    "of its options; docs/reference-slurm.md lists them."
)


def main(arguments: list[str]) -> int:
    """Submit a script; the exit code."""
    if any(word in ("-h", "--help", "--usage") for word in arguments[:1]):
        print(USAGE)
        return 0
    typed, rest = Reader("sbatch").read(arguments)
    script, path, words = script_of(typed, rest)
    pool = SlurmPool()
    machine = sending.machine_of(pool.get("/status"))
    job = batch_job(script, path, words, typed, machine)
    said = job.request.said
    if "test-only" in said:
        sending.say_notes("sbatch", job)
        print(f"sbatch: {summary(job, machine)}", file=sys.stderr)
        return 0
    number = sending.send(pool, job)
    sending.say_notes("sbatch", job)
    if "quiet" not in said:
        print(number if "parsable" in said else f"Submitted batch job {number}")
    sys.stdout.flush()
    if "wait" in said:
        return sending.exit_code(sending.until_over(pool, number))
    return 0


def script_of(typed: Found, rest: Sequence[str]) -> tuple[Script, str, list[str]]:
    """The script, its path, and its arguments."""
    said = {option.name: value for option, value in typed}
    if "wrap" in said:
        if rest:
            raise JobRefused("Script arguments not permitted with --wrap option")
        return read(wrapped(said["wrap"])), "", []
    if not rest:
        return read(sys.stdin.buffer.read(SCRIPT_MAX)), "", []
    if rest[0] == "/dev/stdin":
        return read(sys.stdin.buffer.read(SCRIPT_MAX)), "", list(rest[1:])
    path = _found(rest[0])
    try:
        with open(path, "rb") as file:
            content = file.read(SCRIPT_MAX)
    except IsADirectoryError:
        content = b""
    except OSError:
        raise JobRefused(f"Unable to open file {rest[0]}") from None
    return read(content), path, list(rest[1:])


def _found(name: str) -> str:
    """A script in this folder, else in a folder of PATH."""
    if "/" in name or os.path.exists(name):
        return name
    for folder in os.environ.get("PATH", "").split(":"):
        path = os.path.join(folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.R_OK):
            return path
    return name


def summary(job: BatchJob, machine: MachineSize) -> str:
    """What would be asked for, in one line."""
    asked = job.request
    return (
        f"Job would be taken: {asked.cpus} processors and {asked.gpus} GPUs on {machine.host}, "
        "and was not submitted"
    )
