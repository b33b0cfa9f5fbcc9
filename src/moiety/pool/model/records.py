"""What is submitted to the pool, and the rows that it shows."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from moiety.model.cards import COUNT_MAX
from moiety.model.errors import BadArgument
from moiety.pool.model.arrays import parse_array
from moiety.pool.model.dependencies import parse_depends
from moiety.pool.model.labels import check_labels
from moiety.pool.model.names import NAME
from moiety.pool.model.project_rows import DEFAULT_PROJECT, ProjectUse
from moiety.pool.model.signals import WARN_MAX_S
from moiety.pool.model.states import WorkState

WHOLE_MILLI: Final = 1000
PREEMPTED: Final = "preempted"
"""Work that gives its GPUs to other work ends with this intent."""
RETRY_MAX_S: Final = 600.0
"""The longest time between two tries of work that failed."""
BY_USER: Final = "suspended"
"""The intent of work that is suspended until a user resumes it."""
RESUMES: Final = "resumes"
"""The intent of suspended work that goes on as soon as its GPUs have room."""
GRACE_S: Final = 10.0
"""The time between SIGTERM and SIGKILL."""
ARGUMENTS_MAX: Final = 1 << 21
"""Bytes of arguments and environment together, as the kernel's usual limit."""
PAGE_MAX: Final = 1000
MEMORY_MAX: Final = 1 << 50
CPUS_MAX: Final = 100_000
BEGIN_MAX_S: Final = 1e11
PROCESSES_MAX: Final = 1024
RETRIES_MAX: Final = 1000
SIGNAL_MAX: Final = 64
GRACE_MAX_S: Final = 86400.0


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that is to run, as `moiety submit` sends it."""

    program: str
    """The absolute path of what is started."""
    argv: list[str]
    cwd: str
    environment: dict[str, str] = {}
    name: str = ""
    project: str = DEFAULT_PROJECT
    gpus: int = 1
    gpu: float | None = None
    """The part of each GPU's time; None: all of it, or the part that `memory_bytes` is."""
    memory_bytes: int = 0
    """Memory of each GPU that is kept for it."""
    memory_limit_bytes: int = 0
    """The most that it may allocate on each GPU; 0: all of it."""
    gpu_model: str = ""
    cpus: float = 0.0
    """Processors that are counted for it; 0: none."""
    host_memory_bytes: int = 0
    priority: int = 0
    opportunistic: bool = False
    preemptible: bool = True
    time_limit_s: float | None = None
    grace_s: float = GRACE_S
    hold: bool = False
    stdout: str = ""
    """A path with the patterns of `log_path`; empty: moiety-%j.log in `cwd`, or
    moiety-%A_%a.log for the tasks of an array."""
    stderr: str = ""
    """The same; empty: as `stdout`."""
    stdin: str = ""
    """A path; empty: /dev/null."""
    open_mode: Literal["append", "truncate"] = "append"
    umask: int = 0o022
    script: str = ""
    """Written to a file of its own before each start; `{script}` in `argv` is its path."""
    script_encoding: Literal["utf-8", "latin-1"] = "utf-8"
    """How the script becomes bytes again; latin-1 has each byte as one letter."""
    variables: dict[str, str] = {}
    """Variables whose values are filled in at the start, such as `%j`; empty ones are left out."""
    array: str = ""
    """The indices of an array, such as `0-9:3,12%2`; empty: one workload."""
    depends: str = ""
    """What it waits for, such as `afterok:12:13,afterany:14`; `?` between them: any one."""
    kill_invalid: bool = False
    """Whether it ends once what it depends on cannot happen any more, instead of waiting."""
    begin_s: float = 0.0
    """It does not start before this time."""
    tasks: int = 1
    """How many processes it is, each with its rank."""
    gpus_per_task: int = 0
    """How many of the GPUs each of them sees; 0: all."""
    retries: int = 0
    """How often it runs again after its program failed."""
    requeue: bool = False
    """Whether it waits again after the machine was restarted under it."""
    warn_signal: int = 0
    """This signal is sent before its time limit; 0: none."""
    warn_s: float = 60.0
    """How long before."""
    warn_first: bool = False
    """Whether only its main process gets it, and not all."""
    labels: dict[str, str] = {}
    """What other front ends keep with it; the pool does not read it."""

    def check(self) -> None:
        """Raise BadArgument for values that make no sense."""
        for text, what in ((self.name, "name"), (self.project, "project")):
            if text and not NAME.fullmatch(text):
                raise BadArgument(
                    f"{text[:40]!r} is no {what}", "letters, digits and _.@:+-, at most 128"
                )
        if not self.argv or not self.program.startswith("/") or not self.cwd.startswith("/"):
            raise BadArgument("the program and its folder need absolute paths", "moiety submit")
        if not 0 <= self.gpus <= COUNT_MAX:
            raise BadArgument(f"{self.gpus} is no number of GPUs", "--gpus 1, say")
        if self.gpu is not None and not 0.001 <= self.gpu <= 1:
            raise BadArgument(f"{self.gpu:g} is no part of a GPU", "--gpu 0.5, say")
        if not self.gpus and (self.gpu or self.memory_bytes or self.gpu_model):
            raise BadArgument("a part of a GPU is asked for, but on no GPU", "--gpus 1, say")
        for amount, most, what in (
            (self.memory_bytes, MEMORY_MAX, "memory"),
            (self.memory_limit_bytes, MEMORY_MAX, "memory limit"),
            (self.cpus, CPUS_MAX, "number of processors"),
            (self.host_memory_bytes, MEMORY_MAX, "host memory"),
            (self.grace_s, GRACE_MAX_S, "grace"),
        ):
            if not 0 <= amount <= most:
                raise BadArgument(f"{amount:g} is no {what}", f"a number from 0 to {most:g}")
        if self.memory_limit_bytes and self.memory_limit_bytes < self.memory_bytes:
            raise BadArgument("the memory limit is below the memory that is kept", "a higher one")
        if self.time_limit_s is not None and not 0 < self.time_limit_s < 1e9:
            raise BadArgument(f"{self.time_limit_s:g} s is no time limit", "--time 2h, say")
        self._check_life()
        check_labels(self.labels)
        if abs(self.priority) > 1_000_000:
            raise BadArgument(f"{self.priority} is no priority", "at most 1000000")
        if self.opportunistic and not self.preemptible:
            raise BadArgument("opportunistic work can always be ended", "one of the two")
        texts = [self.program, *self.argv, self.cwd, self.stdin, self.stdout, self.stderr]
        texts += self.environment
        texts += self.environment.values()
        texts += self.variables
        texts += self.variables.values()
        together = "".join(texts)
        if self.script_encoding == "latin-1" and not all(ord(c) < 256 for c in self.script):
            raise BadArgument("the script has letters that are not in Latin-1", "UTF-8")
        if "\0" in together:
            raise BadArgument("a text has a NUL character", "the same without it")
        if len(together) + len(texts) > ARGUMENTS_MAX:
            raise BadArgument("arguments and environment have more than 2 MiB", "a file of them")

    def _check_life(self) -> None:
        if self.array:
            parse_array(self.array)
        if self.depends:
            parse_depends(self.depends)
        if not 0 <= self.begin_s < BEGIN_MAX_S:
            raise BadArgument(f"{self.begin_s:g} is no time to begin", "--begin now+1hour, say")
        if not 0 <= self.umask <= 0o777:
            raise BadArgument(f"{self.umask:o} is no umask", "022, say")
        if not 1 <= self.tasks <= PROCESSES_MAX:
            raise BadArgument(f"{self.tasks} is no number of processes", f"1 to {PROCESSES_MAX}")
        if self.gpus_per_task and self.gpus_per_task * self.tasks != self.gpus:
            raise BadArgument(
                f"{self.tasks} processes with {self.gpus_per_task} GPUs each are not "
                f"{self.gpus} GPUs",
                f"--gpus {max(self.gpus_per_task, 0) * self.tasks}",
            )
        if not 0 <= self.retries <= RETRIES_MAX:
            raise BadArgument(f"{self.retries} is no number of retries", f"0 to {RETRIES_MAX}")
        if not 0 <= self.warn_signal <= SIGNAL_MAX or not 0 <= self.warn_s <= WARN_MAX_S:
            raise BadArgument(
                f"signal {self.warn_signal}, {self.warn_s:g} s before the limit, is no warning",
                "--signal USR1@60, say",
            )


class WorkRow(msgspec.Struct, frozen=True, kw_only=True):
    """One workload of the pool, as `moiety queue -o json` shows it."""

    id: int
    name: str
    project: str
    uid: int
    user: str
    state: WorkState
    reason: str = ""
    """Why it is held, waits for another try, or has failed."""
    gpus: int
    gpu_milli: int
    """Thousandths of each GPU; 0: the part that `gpu_memory_mib` is."""
    gpu_memory_mib: int = 0
    memory_limit_mib: int = 0
    gpu_model: str = ""
    cpu_milli: int = 0
    memory_mib: int = 0
    priority: int = 0
    opportunistic: bool = False
    preemptible: bool = True
    time_limit_s: float | None = None
    grace_s: float = GRACE_S
    submitted_s: float
    turn_s: float = 0.0
    """When it counts as submitted, where the users of a project take turns; 0: as it was."""
    not_before_s: float = 0.0
    """It failed, and is not tried before this time, which is `RETRY_MAX_S` ahead at most."""
    begin_after_s: float = 0.0
    """Its user wants it to begin later than this."""
    array_id: int | None = None
    """The number of the array that it is of."""
    array_index: int | None = None
    array_at_once: int = 0
    """How many of its array may have GPUs at the same time; 0: all."""
    depends: str = ""
    blocked: Literal["", "waits", "never"] = ""
    """Whether what it depends on is still to happen, or cannot happen any more."""
    tasks: int = 1
    retries: int = 0
    retried: int = 0
    """How often it came back into the queue because its program had failed."""
    requeue: bool = False
    restarts: int = 0
    """How often it came back into the queue after its program had begun."""
    suspended_s: float = 0.0
    """How long it was suspended in all, in this attempt."""
    suspended_since_s: float | None = None
    labels: dict[str, str] = {}
    began_s: float | None = None
    ended_s: float | None = None
    attempt: int = 0
    """How often it was started."""
    failures: int = 0
    """How many starts in a row have failed."""
    intent: str = ""
    """Why it ends: `cancelled`, `preempted`."""
    cards: list[int] = []
    """The indices of its GPUs."""
    exit_code: int | None = None
    exit_signal: int | None = None
    max_rss_kib: int | None = None
    """The most memory of one of its processes, of its last attempt that has ended."""
    user_s: float | None = None
    """Processor time of its processes, outside the kernel."""
    system_s: float | None = None
    expected_start_s: float | None = None
    """When it is expected to begin, if that was asked for and can be foreseen."""
    expected_low_s: float | None = None
    expected_high_s: float | None = None
    command: str = ""
    stdout: str = ""
    stderr: str = ""

    @property
    def shown_id(self) -> str:
        """What people call it: its number, or `12_3` for a task of an array."""
        return str(self.id) if self.array_id is None else f"{self.array_id}_{self.array_index}"


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a workload."""

    number: int
    cards: list[int]
    began_s: float
    ended_s: float | None
    outcome: str
    """How it ended, such as `exited 1` or `signaled 9`; empty: it has not."""


class WorkPage(msgspec.Struct, frozen=True):
    """A part of a list; `after` is what to ask for next, None: nothing follows."""

    rows: list[WorkRow]
    after: int | None = None
    folds: dict[int, str] = {}
    """By the number of a row that stands for several waiting tasks of its array: their indices."""
    notes: list[str] = []
    """What users should know about the pool now, such as that a GPU is drained."""


class PoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The pool as a whole."""

    pid: int
    version: str
    agent: str
    """The directory of its agent."""
    up_s: float
    gpus: int
    host: str = ""
    cpus: int = 0
    memory_mib: int = 0
    gpu_models: list[str] = []
    """The model of each GPU."""
    counts: dict[str, int]
    """The number of workloads in each state that is no end."""
    isolation: str = ""
    """How workloads are ended, and which limits they have: cgroups, or process groups."""
    start_refused: int = 0
    """How often the agent refused what the engine had decided."""
    notes: list[str] = []
    """As of WorkPage."""
    projects: list[ProjectUse] = []


class WorkExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a workload waits, or what became of it."""

    id: int
    state: WorkState
    kind: str
    """The engine's reason, such as `gpus-full`; empty: the engine was not asked."""
    text: str
    """One sentence."""
    is_final: bool = False
    numbers: dict[str, int] = {}
    expected_start_s: float | None = None
    """When it is expected to begin, in Unix time; None: that cannot be foreseen."""
    expected_low_s: float | None = None
    """It begins between these two in four of five cases."""
    expected_high_s: float | None = None


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the audit log."""

    id: int
    at_s: float
    uid: int
    user: str
    act: str
    """What was done: `submit`, `cancel`, `hold`, `release`, `apply`, ..."""
    target: str
    """The number of a workload, or what has changed."""


class AuditPage(msgspec.Struct, frozen=True):
    """A part of the audit log, the newest first; `after` is what to ask for next, None: no more."""

    rows: list[AuditRow]
    after: int | None = None


class Accepted(msgspec.Struct, frozen=True):
    """The number of a new workload; of an array also how many tasks it has."""

    id: int
    tasks: int | None = None


class ArrayStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An array, or some of its tasks."""

    id: int
    name: str
    counts: dict[str, int]
    """The number of tasks in each state."""

    @property
    def tasks(self) -> int:
        """How many there are."""
        return sum(self.counts.values())


class Problem(msgspec.Struct, frozen=True):
    """An error in the parts that a command shows."""

    kind: str
    what: str
    hint: str
    exit_code: int


def shape_of(asked: Submission) -> tuple[int, int]:
    """Thousandths of each GPU, and MiB of its memory; a whole GPU unless a part is asked for."""
    memory_mib = -(-asked.memory_bytes // (1 << 20)) if asked.memory_bytes else 0
    if not asked.gpus:
        return 0, 0
    if asked.gpu is None:
        return (0 if memory_mib else WHOLE_MILLI), memory_mib
    return round(asked.gpu * WHOLE_MILLI), memory_mib
