"""Starts one attempt: a supervisor that waits, its share of the agent, then the word to go on.

The supervisor's process is there before the share, so that the agent knows whose it is. It waits
on a pipe: if this process is killed before it has said the word, nothing is started.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from moiety.agent.control import protocol
from moiety.agent.control.client import ask_or_start
from moiety.agent.system import processes
from moiety.devices.driver import require_driver, require_shim
from moiety.devices.program_environment import shared
from moiety.model.cards import CardRequest
from moiety.model.errors import MoietyError, ShareTaken
from moiety.model.format import shortened
from moiety.model.share import Share
from moiety.pool.launch.account import account_of
from moiety.pool.launch.environment import job_environment
from moiety.pool.launch.supervised import LAUNCH
from moiety.pool.model.records import Submission, WorkRow
from moiety.pool.paths import PoolPaths
from moiety.pool.starter.programs import SUPERVISOR, program
from moiety.pool.starter.spec import Spec, encoded

WAIT_FOR_WORD: Final = 'read -r word || exit 75; exec "$0" "$@"'
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """An attempt that was committed."""

    row: WorkRow
    asked: Submission
    gpu_milli: int


@dataclass(slots=True)
class Launched:
    """A supervisor that was told to begin."""

    process: subprocess.Popen[bytes]
    started: int
    """When its process started, in clock ticks since boot."""
    agent_workload: str = ""
    """The agent's name of its share; empty without GPUs."""


class StartFailed(MoietyError):
    """An attempt did not get as far as its program; `is_refusal`: the agent would not have it."""

    def __init__(self, what: str, *, is_refusal: bool = False) -> None:
        super().__init__(what)
        self.is_refusal = is_refusal


@dataclass(slots=True)
class Launcher:
    """Starts attempts of one pool."""

    paths: PoolPaths
    agent_arguments: list[str] = field(default_factory=list)

    def start(self, order: LaunchOrder) -> Launched:
        """Start an attempt; blocking. Raises StartFailed if there is nothing that runs."""
        try:
            return self._start(order)
        except StartFailed:
            raise
        except ShareTaken as error:
            raise StartFailed(f"the agent refused its share: {error}", is_refusal=True) from None
        except Exception as error:  # whatever it is, the workload must not stay as it is
            raise StartFailed(f"it could not be started: {error}") from error

    def _start(self, order: LaunchOrder) -> Launched:
        row = order.row
        folder = self.paths.of_workload(row.id)
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.ExitStack() as stack:
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, directory)
            spec = os.memfd_create("moiety-workload", os.MFD_CLOEXEC)
            stack.callback(os.close, spec)
            lock = hold_launch(folder, row.attempt)
            stack.callback(os.close, lock)
            log = os.open(
                folder / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
                0o600,
            )  # fmt: skip
            stack.callback(os.close, log)
            command = [str(program(SUPERVISOR)), str(spec), str(directory)]
            process = subprocess.Popen(
                ["/bin/sh", "-c", WAIT_FOR_WORD, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(spec, directory, lock),
                cwd="/",
                start_new_session=True,
            )
            assert process.stdin is not None
            try:
                started = processes.start_time(process.pid)
                if started is None:
                    raise StartFailed("its supervisor ended at once")
                environment, name = self._environment(order, process.pid)
                os.write(spec, encoded(self._spec(order, environment)))
                os.lseek(spec, 0, os.SEEK_SET)
                process.stdin.write(b"go\n")
                process.stdin.close()
            except BaseException:
                process.kill()
                process.wait()
                with contextlib.suppress(OSError):
                    process.stdin.close()
                raise
        return Launched(process, started, name)

    def _spec(self, order: LaunchOrder, environment: Mapping[str, str]) -> Spec:
        row, asked = order.row, order.asked
        account = account_of(row.uid)
        return Spec(
            id=str(row.id),
            attempt=row.attempt,
            uid=account.uid,
            gid=account.gid,
            groups=account.groups,
            arguments=[asked.program, *asked.argv[1:]],
            environment=environment,
            cwd=asked.cwd,
            umask=asked.umask,
            stdout=row.stdout,
            stderr=None if row.stderr == row.stdout else row.stderr,
            time_limit_s=asked.time_limit_s,
            grace_s=asked.grace_s,
        )

    def _environment(self, order: LaunchOrder, pid: int) -> tuple[dict[str, str], str]:
        """What `moiety run` would set, and the agent's name of the share."""
        row, asked = order.row, order.asked
        environment = {
            name: value
            for name, value in asked.environment.items()
            if name not in (VISIBLE, "MOIETY_SOCKET")
        }
        environment |= job_environment(row, asked)
        if not row.gpus:
            environment[VISIBLE] = ""
            return environment, ""
        created = self._reserve(order, pid)
        shim, driver = require_shim(), require_driver(environment)
        environment = shared(environment, shim, driver, created.socket, asked.program)
        return environment, created.id

    def _reserve(self, order: LaunchOrder, pid: int) -> protocol.Created:
        """The share in the agent, on the GPUs that the engine chose."""
        row, asked = order.row, order.asked
        gpu = None if row.opportunistic else min(order.gpu_milli / 1000, 1.0)
        share = Share(
            gpu,
            memory_bytes=0 if row.opportunistic else row.gpu_memory_mib << 20,
            memory_limit_bytes=asked.memory_limit_bytes or None,
        )
        wanted = protocol.CreateWorkload(
            program=asked.program.rpartition("/")[2],
            name=row.name,
            argv=shortened(asked.argv),
            cwd=asked.cwd,
            share=share,
            cards=CardRequest(row.gpus, tuple(map(str, row.cards))),
            pid=pid,
            uid=row.uid,
        )
        return ask_or_start(
            self.paths.agent,
            self.agent_arguments,
            lambda call: call.ask(wanted, protocol.Created),
        )


def hold_launch(folder: Path, attempt: int) -> int:
    """Lock the file of an attempt that its supervisor inherits, so that it is never missed."""
    fd = os.open(
        folder / f"{LAUNCH}.{attempt}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise StartFailed("the same attempt is being started already") from None
    return fd
