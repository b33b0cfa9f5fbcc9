"""Brings the pool of all users up: the starter as root, and the server as an account of its own."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
import time
from typing import Final

from moiety.agent.control.client import environment_of_agents
from moiety.agent.control.options import files_of_system
from moiety.agent.system import file_lock, pool_account
from moiety.agent.system.pool_account import PoolAccount
from moiety.config.load import load
from moiety.config.table import PoolSettings
from moiety.model.errors import AgentSilent, PoolAccountUnusable, StarterGone
from moiety.pool import client
from moiety.pool.machine import folders
from moiety.pool.machine.root_part import starter_pid
from moiety.pool.paths import PoolPaths

WAIT_S: Final = 20.0
LOOK_S: Final = 0.01
KEPT: Final = ("LANG", "LC_", "MOIETY_", "PATH", "PYTHON", "TZ")
"""The beginnings of the variables that the server gets: root's others are none of its business."""


def start(paths: PoolPaths, agent_arguments: list[str]) -> None:
    """Start what does not run of it: starter and server; raises what stopped them."""
    settings = load(files=files_of_system()).all_of(PoolSettings)
    account = pool_account.find(settings.user)
    workloads = folders.make(paths, account)
    try:
        lock = file_lock.take(paths.agent.path / "up.lock", f"pid {os.getpid()}", WAIT_S)
    except file_lock.LockHeld as held:
        os.close(workloads)
        raise AgentSilent(problem=str(held)) from None
    try:
        if starter_pid(paths) is None:
            start_starter(paths, account, workloads)
        if not client.is_up(paths):
            _start_server(paths, account, agent_arguments)
    finally:
        os.close(workloads)
        lock.release()


def start_starter(paths: PoolPaths, account: PoolAccount, workloads: int) -> None:
    """Start a starter for the server of this account; `workloads` is their folder, opened."""
    paths.starter.unlink(missing_ok=True)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
        open(paths.starter_log, "ab") as log,
    ):
        listener.bind(str(paths.starter))  # the starter listens: it is who others then see
        os.chmod(paths.starter, 0o600)
        os.chown(paths.starter, account.uid, account.gid)
        fds = (listener.fileno(), workloads)
        module = "moiety.pool.machine.starter_process"
        command = [sys.executable, "-m", module, *map(str, fds), str(paths.cgroups)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=fds,
            start_new_session=True,
            cwd="/",
            env=environment_of_agents(),
        )
    end_s = time.monotonic() + WAIT_S
    while starter_pid(paths) is None:
        if process.poll() is not None or time.monotonic() > end_s:
            raise StarterGone(f"it ended at once; {paths.starter_log} says why")
        time.sleep(LOOK_S)
    process.returncode = 0  # it is not waited for: it outlives this command


def _start_server(paths: PoolPaths, account: PoolAccount, agent_arguments: list[str]) -> None:
    environment = {
        name: value for name, value in environment_of_agents().items() if name.startswith(KEPT)
    }
    environment |= {"USER": account.name, "LOGNAME": account.name, "HOME": _home(account)}
    try:
        client.start_server(
            paths,
            agent_arguments,
            "machine",
            environment,
            user=account.uid,
            group=account.gid,
            extra_groups=account.groups,
        )
    except PermissionError:
        raise PoolAccountUnusable(
            account.name,
            f"it may not execute {sys.executable}",
            "moiety in a folder that all users can read",
        ) from None


def _home(account: PoolAccount) -> str:
    try:
        return pwd.getpwuid(account.uid).pw_dir
    except KeyError:
        return "/"
