"""`scontrol`: show jobs and the machine, and change jobs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Final

from moiety.model.errors import MoietyError
from moiety.pool.connection import of
from moiety.slurm.pool import SlurmPool
from moiety.slurm.programs import VERSION
from moiety.slurm.show import acts, hostlist, job_lines, jobids, machine, options, selection, steps
from moiety.slurm.show.account_lines import BATCH
from moiety.slurm.show.acts import NoJobError
from moiety.slurm.show.jobids import JobId
from moiety.slurm.show.jobs import PARTITION, SlurmJob, folded
from moiety.slurm.show.options import Given, UsageError
from moiety.slurm.show.selection import Wanted
from moiety.slurm.show.states import JobState
from moiety.slurm.show.updates import amendment_of

NAME: Final = "scontrol"
OPTIONS: Final = {
    "all": "a", "clusters=": "M", "details": "d", "federation": "F", "future": "", "help": "h",
    "hide": "", "json": "", "local": "", "oneliner": "o", "quiet": "Q", "sibling": "", "uid=": "u",
    "usage": "", "verbose": "v", "version": "V", "yaml": "",
}  # fmt: skip
ABSENT: Final = ("json", "uid", "yaml")
HELP: Final = """\
Usage: scontrol [-o] show job|step|node|partition|config|hostnames|hostlist [NAME]
       scontrol hold|release|requeue|requeuehold|suspend|resume JOB[,JOB...]
       scontrol update JobId=JOB TimeLimit=|Nice=|Priority=|StartTime=|JobName=|Comment=...
       scontrol write batch_script JOB [FILE|-]; ping; version
Jobs of the moiety pool of this machine. docs/reference-slurm-commands.md says more."""


def main(arguments: list[str]) -> int:
    """Run `scontrol`; the exit code."""
    try:
        given, words = options.read(NAME, arguments, OPTIONS, ABSENT)
        if given.has("help", "usage") or not words:
            print(HELP)
            return 0
        return _run(given, words)
    except UsageError as error:
        return options.usage(error)


def _run(given: Given, words: list[str]) -> int:
    verb, rest = words[0].lower(), words[1:]
    if verb == "show":
        return _show(given, rest)
    if verb == "version":
        print(f"slurm {VERSION}")
        return 0
    if verb in ("hold", "uhold", "release", "requeue", "requeuehold", "suspend", "resume"):
        if not rest:
            raise UsageError(f"too few arguments for keyword:{verb}")
        if verb == "requeuehold" and rest[0].lower().startswith("state="):
            rest = rest[1:]
        return _each(verb, rest)
    if verb == "update":
        return _update(rest)
    if verb == "top":
        raise UsageError("Requested operation is presently disabled: in a pool the engine orders")
    if verb == "write" and rest[:1] == ["batch_script"] and len(rest) > 1:
        return _write_script(rest[1], rest[2] if len(rest) > 2 else "")
    if verb == "write":
        if len(rest) < 2:
            raise UsageError("too few arguments for keyword:write")
        raise UsageError(f"invalid entity:{options.plain(rest[0])[:80]} for keyword:write ")
    if verb == "ping":
        SlurmPool().get("/status")
        print(f"Slurmctld(primary) at {os.uname().nodename.partition('.')[0]} is UP")
        return 0
    known = ("abort", "cancel_reboot", "create", "delete", "notify", "power", "reboot",
             "reconfigure", "setdebug", "shutdown", "takeover", "token", "wait_job")  # fmt: skip
    if verb in known:
        raise UsageError(f"{verb}: Requested operation is presently disabled: this is a pool of "
                         "one machine; see `moiety --help`")  # fmt: skip
    raise UsageError(f"invalid keyword: {options.plain(words[0])[:80]}")


# What is shown


def _show(given: Given, words: list[str]) -> int:
    if not words:
        raise UsageError("too few arguments for keyword:show")
    entity, rest = words[0].lower(), words[1:]
    if "=" in entity:  # show job=12
        entity, _, value = entity.partition("=")
        rest = [value, *rest]
    if "hostnames".startswith(entity) and len(entity) >= 8:
        return _hostnames(rest)
    if entity.startswith("hostlist"):
        print(hostlist.compress(_hosts(rest)))
        return 0
    table: tuple[tuple[str, int, Callable[[Given, list[str]], int]], ...] = (
        ("jobs", 1, _show_jobs),
        ("jobid", 4, _show_jobs),
        ("nodes", 1, _show_node),
        ("partitions", 1, _show_partition),
        ("config", 3, _show_config),
        ("aliases", 3, _show_alias),
        ("steps", 2, _show_steps),
    )
    for name, least, show in table:
        if name.startswith(entity) and len(entity) >= least:
            return show(given, rest)
    raise UsageError(f"invalid entity:{options.plain(entity)[:80]} for keyword:show ")


def _hosts(words: list[str]) -> list[str]:
    text = ",".join(words) or os.environ.get("SLURM_JOB_NODELIST", "")
    if not text:
        raise UsageError(f"{NAME}: error: host list is empty")
    try:
        return hostlist.expand(text)
    except ValueError:
        raise UsageError(f"Invalid hostlist: {options.plain(text)[:200]}") from None


def _hostnames(words: list[str]) -> int:
    for host in _hosts(words):
        print(host)
    return 0


def _print(given: Given, lines: Iterable[str]) -> None:
    if given.has("oneliner"):
        print(" ".join(options.plain(line.strip()) for line in lines), "")
        return
    for line in lines:
        print(options.plain(line))
    print()


def _show_jobs(given: Given, words: list[str]) -> int:
    pool = SlurmPool()
    try:
        if words:
            try:
                wanted = jobids.parse(words[0])
            except ValueError:
                raise UsageError("scontrol_print_job error: Invalid job id specified") from None
            query = Wanted(ids=(wanted,), states=frozenset(JobState), since_s=0.0, why=True)
        else:
            query = Wanted(why=True)
        found = list(folded(selection.find(pool, query)))
    finally:
        pool.close()
    if words and not found:
        raise UsageError("slurm_load_jobs error: Invalid job id specified")
    if not found:
        print("No jobs in the system")
    for job in found:
        _print(given, job_lines.lines_of(job))
    return 0


def _show_steps(given: Given, words: list[str]) -> int:
    try:
        ids = selection.ids_of(words[0]) if words else ()
    except ValueError:
        raise UsageError("slurm_get_job_steps error: Invalid job id specified") from None
    pool = SlurmPool()
    try:
        jobs = list(selection.find(pool, Wanted(ids=ids, steps=True)))
        found = steps.running(jobs, ids)
        pids = {
            (job.number, runner.number): runner.pid
            for job in jobs
            for runner in steps.runners_of(pool, job)
        }
    finally:
        pool.close()
    if ids and not jobs:
        raise UsageError("slurm_get_job_steps error: Invalid job id specified")
    if not found:
        print(f"Job step {ids[0]} not found" if ids else "No job steps in the system")
        return int(bool(ids))
    for line in sorted(found, key=lambda line: (line.job.number, line.step != BATCH)):
        number = int(line.step) if line.step.isdecimal() else -1
        _print(given, steps.lines_of(line, pids.get((line.job.number, number), 0)))
    return 0


def _look() -> machine.Machine:
    pool = SlurmPool()
    try:
        return machine.look(pool)
    finally:
        pool.close()


def _show_node(given: Given, words: list[str]) -> int:
    node = _look()
    for name in _hosts(words) if words else [node.host]:
        if name != node.host:
            print(f"Node {options.plain(name)[:80]} not found")
            return 1
        _print(given, machine.node_lines(node))
    return 0


def _show_partition(given: Given, words: list[str]) -> int:
    if words and words[0] != PARTITION:
        print(f"Partition {options.plain(words[0])[:80]} not found")
        return 1
    _print(given, machine.partition_lines(_look()))
    return 0


def _show_config(given: Given, words: list[str]) -> int:
    del given, words
    for line in machine.config_lines(_look()):
        print(line)
    return 0


def _show_alias(given: Given, words: list[str]) -> int:
    del given, words
    print(_look().host)
    return 0


# What is changed


def _each(verb: str, words: list[str]) -> int:
    """Do it to each of these jobs; 1 if one of them refuses."""
    if verb.startswith("requeue"):  # a job that requeues itself ends this process, too
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return _of_each(words, lambda pool, target: _act(pool, verb, target))


def _of_each(words: list[str], do: Callable[[SlurmPool, JobId], None]) -> int:
    """Do something to each target of these words; 1 if one of them refuses, which is said."""
    pool, code = SlurmPool(), 0
    try:
        for target in _targets(words):
            try:
                do(pool, target)
            except NoJobError as error:
                print(f"{error} for job {target}", file=sys.stderr)
                code = 1
            except MoietyError as error:
                if type(error).__name__ == "NoPool":
                    raise
                print(f"{acts.words_of(error)} for job {target}", file=sys.stderr)
                code = 1
    finally:
        pool.close()
    return code


def _targets(words: list[str]) -> list[JobId]:
    found: list[JobId] = []
    for word in words:
        try:
            found += jobids.parse_list(word)
        except ValueError as error:
            text = options.plain(str(error))[:80]
            raise UsageError(f"Invalid job id specified for job {text}") from None
    if not found:  # an empty word
        raise UsageError("Invalid job id specified for job ")
    return found


ACTS: Final = {
    "hold": ("hold", None),
    "uhold": ("hold", None),
    "release": ("release", None),
    "requeue": ("requeue", {"hold": False}),
    "requeuehold": ("requeue", {"hold": True}),
    "suspend": ("suspend", None),
    "resume": ("resume", None),
}
"""By the word of `scontrol`: the pool's, and what is sent with it."""
WAITING_VERBS: Final = ("hold", "uhold", "release")
"""Those that are for work that waits."""


def _act(pool: SlurmPool, verb: str, target: JobId) -> None:
    found = acts.jobs_of(pool, target)
    jobs = [job for job in found if _can(verb, job)]
    if not jobs:
        raise NoJobError(_why_not(verb, found[0]))
    path, body = ACTS[verb]
    if verb in WAITING_VERBS:
        pool.post(of(target.target, path))
        return
    for job in jobs:
        pool.post(of(job.target, path), body)


def _can(verb: str, job: SlurmJob) -> bool:
    if verb in WAITING_VERBS:
        return job.waits
    return not job.waits and not job.is_over


def _why_not(verb: str, job: SlurmJob) -> str:
    if verb in WAITING_VERBS:
        return "Job is no longer pending execution"
    if job.waits:
        return "Job is pending execution"
    return "Requested operation is presently disabled: the job has ended"


def _update(words: list[str]) -> int:
    values = dict(_pair(word) for word in words)
    text = values.pop("jobid", values.pop("job", ""))
    if not text:
        raise UsageError(
            "No valid entity in update command",
            'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or '
            '"SlurmctldDebug"',
        )
    body = amendment_of(values)

    def amend(pool: SlurmPool, target: JobId) -> None:
        jobs = acts.jobs_of(pool, target)
        refused: MoietyError | None = None
        for job in [job for job in jobs if not job.is_over] or jobs[:1]:
            try:
                pool.post(of(job.target, "amend"), body)
            except MoietyError as error:  # others can be changed nevertheless
                refused = refused or error
        if refused:
            raise refused

    return _of_each([text], amend)


def _pair(word: str) -> tuple[str, str]:
    name, is_pair, value = word.partition("=")
    if not is_pair:
        raise UsageError(
            f"Update of this parameter is not supported: {options.plain(word)[:80]}",
            "Request aborted",
        )
    return name.lower(), value


def _write_script(text: str, path: str) -> int:
    pool = SlurmPool()
    try:
        found = acts.jobs_of(pool, _targets([text])[0])
        script = str(pool.get(of(found[0].target, "script")))
    except NoJobError as error:
        raise UsageError(f"job script retrieval failed: {error}") from None
    finally:
        pool.close()
    if not script:
        raise UsageError("job script retrieval failed: the job has no batch script")
    if path == "-":
        sys.stdout.write(script)
        return 0
    path = path or f"slurm-{found[0].number}.sh"
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(script)
    print(f"batch script for job {found[0].number} written to {path}")
    return 0
