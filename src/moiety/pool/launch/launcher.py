"""Starts one attempt: a supervisor that waits, its share of the agent, then the word to go on.

The supervisor's process is there before the share, so that the agent knows whose it is
(process_start.py). If this process is killed before it has said the word, nothing is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from moiety.agent.control import protocol
from moiety.agent.control.client import ask_or_start
from moiety.devices.driver import require_driver, require_shim
from moiety.devices.program_environment import shared
from moiety.model.cards import CardRequest
from moiety.model.errors import ShareTaken, StarterGone
from moiety.model.format import shortened
from moiety.model.share import Priority, Share
from moiety.pool.launch.account import account_of, must_be_startable
from moiety.pool.launch.environment import job_environment
from moiety.pool.launch.ports import PortBook
from moiety.pool.launch.process_start import Launched, ProcessStart, StartFailed
from moiety.pool.launch.specification import life_spec
from moiety.pool.launch.spool import keep_environment, prepare, with_script
from moiety.pool.launch.tasks import command_of
from moiety.pool.launch.variables import filled
from moiety.pool.model.records import Submission, WorkRow
from moiety.pool.paths import PoolPaths
from moiety.pool.starter.spec import Spec, encoded

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """An attempt that was committed."""

    row: WorkRow
    asked: Submission
    gpu_milli: int
    priority: Priority = Priority.NORMAL


@dataclass(slots=True)
class Launcher:
    """Starts attempts of one pool."""

    paths: PoolPaths
    agent_arguments: list[str]
    starts: ProcessStart
    processes: int | None = None
    """How many processes and threads a workload may have, where it has a cgroup."""
    ports: PortBook = field(default_factory=PortBook)

    def start(self, order: LaunchOrder) -> Launched:
        """Start an attempt; blocking.

        Raises StartFailed if there is nothing that runs, and StarterGone if nothing can be started.
        """
        try:
            return self._start(order)
        except (StartFailed, StarterGone):
            raise
        except ShareTaken as error:
            raise StartFailed(f"the agent refused its share: {error}", is_refusal=True) from None
        except Exception as error:  # whatever it is, the workload must not stay as it is
            raise StartFailed(f"it could not be started: {error}") from error

    def must_serve(self, uid: int) -> None:
        """Raise NotAllowed for a user whose programs cannot be started here."""
        must_be_startable(uid, serves_all=self.starts.serves_all)

    def _start(self, order: LaunchOrder) -> Launched:
        def specify(pid: int) -> tuple[bytes, str]:
            spool = prepare(self.paths, order.row, order.asked)
            environment, name = self._environment(order, pid)
            environment |= filled(order.asked.variables, order.row, spool)
            keep_environment(spool, environment)
            return encoded(self._spec(order, environment, spool)), name

        return self.starts.begin(order.row.id, order.row.attempt, specify)

    def _spec(self, order: LaunchOrder, environment: Mapping[str, str], spool: str) -> Spec:
        row, asked = order.row, order.asked
        account = account_of(row.uid, serves_all=self.starts.serves_all)
        return Spec(
            id=str(row.id),
            attempt=row.attempt,
            uid=account.uid,
            gid=account.gid,
            groups=account.groups,
            arguments=with_script(command_of(asked, self.ports), spool),
            environment=environment,
            cwd=asked.cwd,
            umask=asked.umask,
            stdout=row.stdout,
            stderr=None if row.stderr == row.stdout else row.stderr,
            memory_bytes=asked.host_memory_bytes or None,
            pids=self.processes,
            time_limit_s=row.time_limit_s,
            grace_s=asked.grace_s,
            **life_spec(row, asked),
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
            priority=order.priority,
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
