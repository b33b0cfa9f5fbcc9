"""Errors between a command and the pool of a machine."""

from __future__ import annotations

from moiety.model.errors.base import ExitCode, MoietyError


class PoolError(MoietyError):
    """The pool did not do what the command asked it for."""


class NoPool(PoolError):
    """No pool runs beside this agent."""

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, directory: str) -> None:
        super().__init__(
            f"no pool runs in {directory}",
            "`moiety up`; MOIETY_DIR and MOIETY_AGENT (own or system) name another agent and pool",
        )


class PoolSilent(PoolError):
    """The pool did not answer, or did not start."""

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, problem: str, log: str = "") -> None:
        super().__init__(
            f"the pool did not answer: {problem}",
            f"its log, {log}" if log else "`moiety up`, if it has ended",
        )


class PoolRunning(PoolError):
    """Another process serves this pool."""

    exit_code = ExitCode.TEMPORARY

    def __init__(self, directory: str, owner: str) -> None:
        super().__init__(f"{directory} is the pool of {owner}", "`moiety down`, to end that one")


class PoolPromises(PoolError):
    """A part of a GPU is to be promised by others than the pool."""

    exit_code = ExitCode.TEMPORARY

    def __init__(self) -> None:
        super().__init__(
            "a pool is up on this machine, and only it promises parts of GPUs",
            "`moiety submit` with the same options; or `moiety run` without --gpu, --memory and "
            "--exclusive, for what is not promised",
        )


class PoolMissing(PoolError):
    """What the pool needs is not installed."""

    exit_code = ExitCode.CONFIGURATION

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is not installed, and the pool needs it", "`pip install 'moiety[pool]'`"
        )


class PoolAccountUnusable(PoolError):
    """The pool of a machine cannot serve as the account that the settings name."""

    exit_code = ExitCode.CONFIGURATION

    def __init__(self, name: str, problem: str, hint: str) -> None:
        super().__init__(
            f"the pool of this machine cannot serve as user {name!r}: {problem}",
            f"{hint}; `[pool] user` in /etc/moiety/config.toml names another",
        )


class StarterGone(PoolError):
    """The root part of a machine's pool has ended, so nothing can be started."""

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the starter of this pool does not answer: {problem}",
            "`moiety up` by root, which starts another one; what runs goes on",
        )


class TooMuchWaiting(PoolError):
    """A user has as much waiting work as one may have."""

    exit_code = ExitCode.TEMPORARY

    def __init__(self, has: int, wanted: int, most: int) -> None:
        super().__init__(
            f"{has} workloads of yours wait, and {wanted} more would be above {most}, "
            "the most that a user may have in this pool",
            "again when some have started, or `moiety cancel`; administrators: `[pool] waiting`",
        )


class StoreBroken(PoolError):
    """The store of the pool cannot be read."""

    exit_code = ExitCode.BAD_DATA

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"the store of the pool, {path}, cannot be read: {problem}",
            "`moiety restore FILE` with a file of `moiety backup`; or move its whole folder away, "
            "and the pool begins with an empty one",
        )
        self.problem = problem


class StoreNewer(PoolError):
    """The store of the pool was written by a later version."""

    exit_code = ExitCode.CONFIGURATION

    def __init__(self, version: int, own: int) -> None:
        super().__init__(
            f"the store of the pool has version {version}, and this moiety knows {own}",
            "the version of moiety that wrote it, or a later one",
        )


class WorkUnknown(PoolError):
    """The pool has no such workload."""

    exit_code = ExitCode.NO_INPUT

    def __init__(self, target: str) -> None:
        super().__init__(f"the pool has no workload {target}", "`moiety queue`, `moiety history`")


class WorkAmbiguous(PoolError):
    """Several workloads of the pool have this name."""

    exit_code = ExitCode.USAGE

    def __init__(self, name: str, numbers: list[int]) -> None:
        known = ", ".join(map(str, numbers))
        super().__init__(f"{len(numbers)} workloads are called {name}", f"one of these: {known}")


class WorkStateWrong(PoolError):
    """A workload is not in a state in which this can be done."""

    exit_code = ExitCode.TEMPORARY


class TooManyWatchers(PoolError):
    """The pool tells as many watchers as it can."""

    exit_code = ExitCode.TEMPORARY

    def __init__(self, own: int) -> None:
        super().__init__(
            f"the pool has no room for another watcher; {own} of them are yours",
            "fewer at a time, or `moiety queue` now and then",
        )


class ProjectUnknown(PoolError):
    """The pool has no such project."""

    exit_code = ExitCode.NO_INPUT

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(
            f"the pool has no project {name}",
            f"one of these: {', '.join(known)}; or a new one, `moiety apply -f pool.yaml`",
        )


class PoolFileInvalid(PoolError):
    """A file of projects or of a workload makes no sense."""

    exit_code = ExitCode.BAD_DATA

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}", "docs/reference-pool.md has what can be in it")
