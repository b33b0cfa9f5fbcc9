"""`srun`: start processes with ranks, in the job that it runs in or in one of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from moiety.slurm.errors import JobRefused
from moiety.slurm.getopt import Reader
from moiety.slurm.pool import SlurmPool
from moiety.slurm.step import record, warning
from moiety.slurm.step.allocation import Allocation, variables_of, watch
from moiety.slurm.step.notes import StepNotes
from moiety.slurm.step.output import LabelledPipe, is_by_rank, open_file, path_of
from moiety.slurm.step.ranks import CARDS, StepShape, of_rank
from moiety.slurm.step.report import StepTeller, cpus_of, gpus_of
from moiety.slurm.step.runner import StepRules, StepRun, StepTask
from moiety.slurm.step.terminal import StepTerminal, typed
from moiety.slurm.submit import sending, values
from moiety.slurm.submit.environment import submitter
from moiety.slurm.submit.request import JobRequest, request_of

JOB_WORDS: Final = frozenset(
    {"account", "dependency", "gres", "job-name", "mem", "partition", "time"}
)
"""Options that ask for a job; their variables say nothing to a step inside one."""
STREAMS: Final = ("input", "output", "error")
NO_TERMINAL: Final = "Not using a pseudo-terminal, disregarding --pty option"


def main(arguments: list[str]) -> int:
    """Run a step; the exit code."""
    reader = Reader("srun")
    typed, command = reader.read(arguments)
    if any(word in ("-h", "--help", "--usage") for word in arguments[:1]) or not command:
        print("Usage: srun [OPTIONS...] PROGRAM [ARGUMENTS...]", file=sys.stderr)
        return 0 if arguments[:1] == ["--help"] else 1
    inside = os.environ.get("SLURM_JOB_ID")
    said = {option.name: value for option, value in typed}
    if "jobid" in said and said["jobid"] != inside:
        number = sending.first_number(said["jobid"])
        if number is None:
            raise JobRefused(f"Invalid --jobid specification: {said['jobid'][:40]}")
        return _in_job(said, command, variables_of(SlurmPool(), number), watch(number))
    if inside:
        known = {o.name: v for o, v in reader.of_environment(os.environ)}
        known = {name: value for name, value in known.items() if name not in JOB_WORDS}
        return _in_job(known | said, command, dict(os.environ))
    found = reader.of_environment(os.environ) + typed
    pool = SlurmPool()
    request = request_of(found, sending.machine_of(pool.get("/status")))
    pool.close()
    return _with_a_job(request, command)


def _with_a_job(request: JobRequest, command: Sequence[str]) -> int:
    said = request.said
    name = said.get("job-name") or os.path.basename(command[0])
    held = Allocation("srun", request, name, command[0])
    code = 1
    try:
        immediate = float(said["immediate"] or 5) if "immediate" in said else None
        variables = held.until_running("srun", immediate)
        code = _in_job(said, command, variables, held.watch())
    except KeyboardInterrupt:
        held.cancel()
        return 130
    finally:
        held.release(code)
    return code


def _in_job(
    said: Mapping[str, str], command: Sequence[str], variables: dict[str, str], over: int = -1
) -> int:
    """Run the step in the job with these variables."""
    shape, notes = _shape(said, variables)
    if "quiet" not in said:
        for note in notes:
            print(f"srun: note: {note}", file=sys.stderr)
    who = submitter(os.getcwd())
    kept: dict[str, Any] = {
        "name": said.get("job-name") or os.path.basename(command[0]),
        "command": shlex.join(command)[:4096],
        "tasks": shape.tasks,
        "cpus": cpus_of(shape, variables, is_exact="exact" in said),
        "gpus": gpus_of(shape, variables),
        "began_s": time.time(),
    }
    cards = [part for part in variables.get(CARDS, "").split(",") if part]
    step = record.begin(variables.get(record.SPOOL_VARIABLE, ""), kept, cards, kept["gpus"])
    shape = replace(shape, number=step.number, cards=tuple(step.content["cards"]))
    if "chdir" in said:
        os.chdir(said["chdir"])
    pipes: list[LabelledPipe | StepTerminal] = []
    programs = _programs(said, command, shape.tasks)
    given = _terminal() if "pty" in said else None
    if given:
        variables = variables | given.variables
        said = {name: value for name, value in said.items() if name not in STREAMS}
        said |= dict.fromkeys(STREAMS, "none")  # of the other processes
    outputs = _Outputs(said, variables, shape, who.user, who.host, pipes)
    tasks = []
    for rank in range(shape.tasks):
        environment = of_rank(variables, shape, rank, who.host, os.getpid())
        environment.pop(warning.VARIABLE, None)
        argv = [programs[rank][0], *programs[rank][1:]]
        argv[0] = shutil.which(argv[0], path=variables.get("PATH")) or argv[0]
        stdin, stdout, stderr = outputs.of(rank)
        tasks.append(StepTask(rank, argv, environment, stdin, stdout, stderr))
    rules = StepRules(
        kills_on_bad_exit=said.get("kill-on-bad-exit", "0") != "0",
        wait_s=float(said["wait"]) if said.get("wait", "").isdecimal() else 0.0,
        is_typed_at=not given and os.isatty(0),
        passes_interrupts="disable-status" in said,
        quits_on_interrupt="quit-on-interrupt" in said,
        terminal=given,
        warn=warning.of_job(variables),
    )
    step_id = f"{variables.get('SLURM_JOB_ID', '')}.{step.number}"
    run = StepRun(tasks, rules, pipes, StepNotes("srun", who.host, step_id, "quiet" in said))
    teller = StepTeller(step, variables)
    code = run.run(over)
    exit_code, exit_signal = run.outcome()
    step.write(ended_s=time.time(), exit_code=exit_code, exit_signal=exit_signal)
    teller.finish()
    return code


def _terminal() -> StepTerminal | None:
    """The terminal of the first process; none where our output is no terminal, as with Slurm."""
    try:
        return StepTerminal.open()
    except OSError as error:
        print(f"srun: error: ioctl(TIOCGWINSZ): {error.strerror}", file=sys.stderr)
        print(f"srun: error: {NO_TERMINAL}", file=sys.stderr)
        return None


def _shape(said: Mapping[str, str], variables: Mapping[str, str]) -> tuple[StepShape, list[str]]:
    """How many processes, and which GPUs each sees; options that ask for a job do nothing."""
    if "nodes" in said and values.nodes(said["nodes"])[0] > 1:
        raise JobRefused(f"Only allocated 1 nodes asked for {said['nodes']}", "-N 1")
    known = variables.get("SLURM_NTASKS", "")
    tasks = int(known) if known.isdecimal() else 1
    if "ntasks-per-node" in said:
        tasks = values.count(said["ntasks-per-node"], "ntasks-per-node")
    if "ntasks" in said:
        tasks = values.count(said["ntasks"], "ntasks")
    gpus: int | None = None
    if "gres" in said:
        gpus = 0 if said["gres"] == "none" else values.gres(said["gres"]).number
    for name in ("gpus", "gpus-per-node"):
        if name in said:
            gpus = values.gpus(said[name], name).number
    each = values.gpus(said.get("gpus-per-task", "0"), "gpus-per-task").number
    have = len([part for part in variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if part])
    if max(gpus or 0, each) > have:
        raise JobRefused(
            f"Unable to create step for job {variables.get('SLURM_JOB_ID', '')}: "
            f"{max(gpus or 0, each)} GPUs are asked for, and the job has {have}"
        )
    cpus = values.count(said["cpus-per-task"], "cpus-per-task") if "cpus-per-task" in said else 0
    return StepShape(0, tasks, cpus, gpus, each), []


def _programs(said: Mapping[str, str], command: Sequence[str], tasks: int) -> list[Sequence[str]]:
    """The program of each rank; with --multi-prog a file says it."""
    if "multi-prog" not in said:
        return [command] * tasks
    found: dict[int, Sequence[str]] = {}
    with open(command[0]) as file:
        for line in file:
            words = shlex.split(line, comments=True)
            if len(words) < 2:
                continue
            ranks = range(tasks) if words[0] == "*" else values.array(words[0])[0]
            for at, rank in enumerate(ranks):
                fixed = [w.replace("%t", str(rank)).replace("%o", str(at)) for w in words[1:]]
                found.setdefault(rank, fixed)
    if lacking := [rank for rank in range(tasks) if rank not in found]:
        raise JobRefused(f"{command[0]} names no program for task {lacking[0]}")
    return [found[rank] for rank in range(tasks)]


class _Outputs:
    """The descriptors of each process."""

    def __init__(
        self,
        said: Mapping[str, str],
        variables: Mapping[str, str],
        shape: StepShape,
        user: str,
        host: str,
        pipes: list[LabelledPipe | StepTerminal],
    ) -> None:
        self._said, self._shape, self._pipes = said, shape, pipes
        job = variables.get("SLURM_JOB_ID", "")
        self._known = {
            "j": job,
            "J": f"{job}.{shape.number}",
            "s": str(shape.number),
            "A": variables.get("SLURM_ARRAY_JOB_ID", job),
            "a": variables.get("SLURM_ARRAY_TASK_ID", "4294967294"),
            "x": variables.get("SLURM_JOB_NAME", ""),
            "u": user,
            "N": host,
        }
        self._append = said.get("open-mode", "t")[:1].lower() == "a"
        self._shared: dict[str, int] = {}

    def of(self, rank: int) -> tuple[int | None, int | None, int | None]:
        """Input, output and errors of one process; None is ours."""
        output = self._output("output", rank, 1)
        error = self._output("error", rank, 2)
        if "error" not in self._said and "output" in self._said:
            error = None if output is None else os.dup(output)
        return self._input(rank), output, error

    def _output(self, name: str, rank: int, ours: int) -> int | None:
        pattern = self._said.get(name, "all")
        if pattern == "none" or (pattern.isdecimal() and int(pattern) != rank):
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        if pattern == "all" or pattern.isdecimal():
            return self._labelled(rank, ours) if "label" in self._said else None
        path = path_of(pattern, rank, self._known, 0)
        if is_by_rank(pattern):
            return open_file(path, append=self._append)
        if path not in self._shared:
            self._shared[path] = open_file(path, append=self._append)
        return os.dup(self._shared[path])

    def _labelled(self, rank: int, ours: int) -> int:
        read, write = os.pipe2(os.O_CLOEXEC)
        width = len(str(self._shape.tasks - 1))
        self._pipes.append(LabelledPipe(read, ours, f"{rank:{width}}: ".encode()))
        return write

    def _input(self, rank: int) -> int | None:
        pattern = self._said.get("input", "all")
        if pattern == "none" or (pattern.isdecimal() and int(pattern) != rank):
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        if pattern != "all" and not pattern.isdecimal():
            return os.open(path_of(pattern, rank, self._known, 0), os.O_RDONLY | os.O_CLOEXEC)
        if rank == 0:
            return typed() if os.isatty(0) else None
        try:  # a file has its own place in each process
            is_file = os.path.isfile("/proc/self/fd/0")
            return os.open("/proc/self/fd/0" if is_file else os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
