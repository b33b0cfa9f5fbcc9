"""The server of a pool: the store, the loop, the engine's process and the API in one process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog
import uvicorn

from moiety.agent.control import protocol
from moiety.agent.control.options import files_of_system
from moiety.agent.control.server import failed
from moiety.agent.system.logs import BoundedFile, LossyFile
from moiety.agent.system.paths import Directory
from moiety.agent.system.subordinate_users import SubordinateUsers, unchanged
from moiety.config.load import load
from moiety.config.table import PoolSettings
from moiety.model.errors import MoietyError, SystemRefusal
from moiety.pool.api.administrators import OWN, Administrators, of_settings
from moiety.pool.api.app import app
from moiety.pool.api.connections import protocol_of, quota_of, raise_descriptor_limit
from moiety.pool.api.route import ServedPool
from moiety.pool.control.cleaning import keep_clean
from moiety.pool.control.loop import PoolLoop
from moiety.pool.engine.process import EngineProcess
from moiety.pool.launch.launcher import Launcher
from moiety.pool.launch.process_start import OwnStart, StarterStart
from moiety.pool.launch.starter_link import StarterLink
from moiety.pool.paths import PoolPaths
from moiety.pool.store.database import StoreFiles, reader
from moiety.pool.store.turns import SubmitRules

BACKLOG: Final = 1024
KEEP_ALIVE_S: Final = 300
"""A connection on which nothing is asked for this long is closed."""


class PoolServer(uvicorn.Server):
    """Uvicorn, without signal handlers of its own: the pool ends by its own rules."""

    def install_signal_handlers(self) -> None:
        """Leave the signals alone."""


async def serve(
    paths: PoolPaths,
    launcher: Launcher,
    admins: Administrators,
    rules: SubmitRules,
    ready: int,
    keep_s: float | None = None,
) -> None:
    """Serve until SIGTERM, or until asked to stop; `ready` is told when it answers.

    What ended more than `keep_s` ago is deleted; None: nothing is.
    """
    account_of = SubordinateUsers().owner_of if paths.agent.shared else unchanged
    quota = quota_of(account_of)
    files = StoreFiles(paths)
    engine = EngineProcess(paths, sys.stderr.fileno())
    reading = reader(paths)
    loop = PoolLoop(paths, files.writer, engine, launcher, reading)
    served = ServedPool(
        paths, loop, reading, lambda: setattr(server, "should_exit", True), admins, rules
    )
    server = PoolServer(
        uvicorn.Config(
            app(served),
            http=protocol_of(quota, admins),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # each user could fill the log with requests that make no sense
            access_log=False,
            proxy_headers=False,  # only the kernel says who asks
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=1,
        )
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(
            number, lambda: setattr(server, "should_exit", True)
        )
    tasks = {asyncio.create_task(loop.run())}
    if keep_s is not None:
        tasks.add(asyncio.create_task(keep_clean(loop.write, paths, keep_s)))
    listener = listen(paths)
    try:
        tell(ready, protocol.encode(protocol.Done()))
        await server.serve(sockets=[listener])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        loop.suspended.close()
        loop.running.close()
        paths.socket.unlink(missing_ok=True)
        engine.close()
        files.close()


def parts(
    paths: PoolPaths, agent_arguments: list[str], *, is_machines: bool
) -> tuple[Launcher, Administrators, SubmitRules]:
    """How this pool starts work, who administers it, and what users may submit."""
    if not is_machines:
        return Launcher(paths, agent_arguments, OwnStart(paths)), OWN, SubmitRules()
    settings = load(files=files_of_system()).all_of(PoolSettings)
    starts = StarterStart(paths, StarterLink(paths.starter))
    launcher = Launcher(paths, agent_arguments, starts, settings.processes)
    return launcher, of_settings(settings), SubmitRules(True, settings.waiting)


def listen(paths: PoolPaths) -> socket.socket:
    """The socket of the API; all users may connect to that of a machine's pool."""
    paths.socket.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    listener.bind(str(paths.socket))
    os.chmod(paths.socket, 0o666 if paths.agent.shared else 0o600)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def log_file(paths: PoolPaths) -> BoundedFile | LossyFile:
    """What the server writes its log to; that of a machine's pool only root can open."""
    try:
        return BoundedFile(paths.log)
    except OSError:
        return LossyFile(sys.stderr.fileno())


def tell(ready: int, line: bytes) -> None:
    """Tell the command that waits for the server, once."""
    if ready >= 0:
        os.write(ready, line + b"\n")
        os.close(ready)


def main(arguments: Sequence[str]) -> int:
    """Serve: `python -m moiety.pool.server AGENT-FOLDER WHICH READY-FD AGENT-ARGUMENTS...`.

    WHICH is own (the pool of this user), system (the same, beside the agent of all users), or
    machine: the pool of all users, whose work the starter starts.
    """
    folder, which, ready, *rest = arguments
    paths = PoolPaths(Directory(Path(folder), shared=which != "own"))
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(log_file(paths)),  # type: ignore[arg-type]
    )
    try:
        is_machines = which == "machine"
        if is_machines:  # else programs are started here, which inherit it
            raise_descriptor_limit()
        launcher, admins, rules = parts(paths, rest, is_machines=is_machines)
        keep_s = load(files=files_of_system()).all_of(PoolSettings).keep if is_machines else None
        asyncio.run(serve(paths, launcher, admins, rules, int(ready), keep_s))
    except MoietyError as error:
        tell(int(ready), protocol.encode(failed(error)))
        return int(error.exit_code)
    except OSError as error:
        tell(int(ready), protocol.encode(failed(SystemRefusal(error))))
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
