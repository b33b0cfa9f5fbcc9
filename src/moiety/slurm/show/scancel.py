"""`scancel`: end jobs, or send them a signal."""

from __future__ import annotations

import signal
import sys
from typing import Final

from moiety.model.errors import MoietyError
from moiety.slurm.pool import SlurmPool
from moiety.slurm.show import acts, jobids, options, selection, states
from moiety.slurm.show.acts import NoJobError
from moiety.slurm.show.jobids import JobId
from moiety.slurm.show.jobs import SlurmJob, folded
from moiety.slurm.show.options import Given, UsageError, fail
from moiety.slurm.show.selection import Wanted
from moiety.slurm.show.states import JobState

NAME: Final = "scancel"
OPTIONS: Final = {
    "account=": "A", "batch": "b", "clusters=": "M", "ctld": "", "cron": "c", "full": "f",
    "help": "", "hurry": "H", "interactive": "i", "jobname=": "n", "name=": "", "me": "",
    "nodelist=": "w", "partition=": "p", "qos=": "q", "quiet": "Q", "reservation=": "R",
    "sibling=": "", "signal=": "s", "state=": "t", "usage": "", "user=": "u", "verbose": "v",
    "version": "V", "wckey=": "",
}  # fmt: skip
LABELS: Final = {"qos": "qos", "reservation": "reservation", "wckey": "wckey"}
FILTERS: Final = ("account", "jobname", "name", "me", "nodelist", "partition", "qos",
                  "reservation", "state", "user", "wckey")  # fmt: skip
HELP: Final = """\
Usage: scancel [-A account] [-b] [-f] [-n name] [-p partition] [-Q] [-s signal] [-t state]
               [-u user] [--me] [-v] [JOB[_TASK | _[TASKS]][.STEP] ...]
Ends jobs of the moiety pool of this machine. docs/reference-slurm-commands.md says more."""


def main(arguments: list[str]) -> int:
    """Run `scancel`; the exit code."""
    try:
        given, words = options.read(NAME, arguments, OPTIONS)
        if given.has("help", "usage"):
            print(HELP)
            return 0
        ids = _ids(words)
        if not ids and not given.has(*FILTERS):
            fail(NAME, "No job identification provided")
        number = _signal(given)
        wanted = _wanted(given, ids)
    except UsageError as error:
        return options.usage(error)
    pool = SlurmPool()
    try:
        if given.has(*FILTERS):
            found = folded(list(selection.find(pool, wanted)))
            targets = [(job.shown_id, jobids.parse(job.shown_id)) for job in found]
        else:
            targets = [(str(each), each) for each in ids]
        failed = [_act(pool, given, shown, each, number) for shown, each in targets]
    finally:
        pool.close()
    return int(any(failed))


def _ids(words: list[str]) -> tuple[JobId, ...]:
    found: list[JobId] = []
    for word in words:
        try:
            found += jobids.parse_list(word)
        except ValueError as error:
            fail(NAME, f"Invalid job id {options.plain(str(error))[:80]}")
    return tuple(found)


def _signal(given: Given) -> int | None:
    text = given.get("signal")
    if text is None:
        return None
    number = acts.signal_number(text)
    if number is None:
        raise UsageError(f"Unknown job signal: {options.plain(text)[:80]}")
    return number


def _wanted(given: Given, ids: tuple[JobId, ...]) -> Wanted:
    users = given.list("user")
    known, unknown = selection.users_of(users)
    if unknown:
        fail(NAME, f"Invalid user name: {options.plain(unknown[0])[:80]}")
    if given.has("me") or not users:
        known = known | {selection.me()}
    found = set()
    for text in given.list("state"):
        state = states.parse(text)
        if state not in (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED):
            raise UsageError(
                f"Invalid job state specified: {options.plain(text)[:80]}",
                "Valid job states are PENDING, RUNNING, and SUSPENDED",
            )
        found |= {state} | ({JobState.CONFIGURING} if state is JobState.RUNNING else set())
    return Wanted(
        ids=ids,
        users=known,
        names=frozenset(given.list("name") + given.list("jobname")),
        states=frozenset(found) or None,
        partitions=frozenset(given.list("partition")),
        accounts=frozenset(given.list("account")),
        hosts=selection.hosts_of(NAME, given),
        labels=selection.labels_of(given, LABELS),
    )


def _act(pool: SlurmPool, given: Given, shown: str, target: JobId, number: int | None) -> bool:
    """Do it to one target, and say what could not be done; whether that ends `scancel` with 1.

    As with Slurm, a job that is not there is no failure unless it is asked for with -v.
    """
    say = _say if given.has("verbose") else _nothing
    is_step = target.step.isdecimal()
    what = f"step {shown}" if is_step else f"job {shown}"
    failed = f"error: Kill job error on job {'step ' if is_step else ''}id {shown}"
    is_end = number is None if is_step else number in (None, signal.SIGKILL) and not target.step
    if is_end and not given.has("batch", "full"):
        say(f"Terminating {what}")
    else:
        say(f"Signal {number or int(signal.SIGKILL)} to {what}")
    try:
        _do(pool, given, target, number)
    except NoJobError as error:
        if is_step:  # which is a failure, other than with jobs
            say = _nothing if given.has("quiet") else _say
        say(f"{failed}: {error}")
        return is_step
    except PermissionError:
        _say(f"{failed}: Access/permission denied")
        return True
    except MoietyError as error:
        is_known = type(error).__name__ != "NoPool"
        if not is_known:
            raise
        if not given.has("quiet"):
            _say(f"{failed}: {acts.words_of(error)}")
        return type(error).__name__ == "NotAllowed"
    return False


def _do(pool: SlurmPool, given: Given, target: JobId, number: int | None) -> None:
    if target.step.isdecimal():
        found = acts.jobs_of(pool, target)
        if not sum(acts.send_to_step(pool, job, target.step, number) for job in found):
            raise NoJobError(acts.INVALID)
        return
    to = "batch" if given.has("batch") else "all" if given.has("full") else "steps"
    if target.step == "batch":
        to = "batch"
    is_cancel = number is None and to == "steps"
    if is_cancel or (number == signal.SIGKILL and to != "batch"):
        acts.cancel(pool, target)
        return
    reached: list[SlurmJob] = [job for job in acts.jobs_of(pool, target) if not job.is_over]
    if not reached:
        raise NoJobError(acts.OVER)
    for job in reached:
        acts.send(pool, job, number or int(signal.SIGKILL), to=to)


def _say(text: str) -> None:
    print(f"{NAME}: {text}", file=sys.stderr)


def _nothing(text: str) -> None:
    del text
