"""A machine's pool for tests: its server runs as an account of its own, and its starter as root.

The account may not be able to read the Python that runs the tests (in the home of root, say). Then
the pool is brought up in a mount namespace in which it can.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from moiety.agent.system.paths import Directory
from moiety.pool.machine.cgroups import folder_of, hierarchies
from moiety.pool.machine.root_part import starter_pid
from tests.support.pool_node import PoolNode
from tests.support.users import open_folder
from tests.support.users_programs import GPU, Setting
from tests.support.workloads import until_ended

ACCOUNT: Final = 65020
"""The account of the pool, which no system's tables know."""
OPENED: Final = """
mount --make-rprivate / && mount --bind "$0" "$1" && mount -t tmpfs -o mode=0755 tmpfs "$0" &&
for each in $(ls -A "$1"); do
  [ -d "$1/$each" ] && mkdir "$0/$each" && mount --bind "$1/$each" "$0/$each"
done
shift; exec "$@"
"""
"""Puts a folder with another mode in the place of one, for one command and what it starts."""


class MachinePool(PoolNode):
    """The pool of all users of a machine, and its agent."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.paths = self.of(Directory(setting.folder / "s", shared=True)).paths
        (setting.folder / "closed").mkdir()

    def as_root(self, *words: str) -> str:
        """A command of root's; what it says."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr + self.log()
        return done.stdout

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """The same, also if it fails."""
        return subprocess.run(
            [*self._opened(), sys.executable, "-m", "moiety", *words],
            env={**os.environ, **self.setting.agent.environment, **variables},
            capture_output=True,
            text=True,
        )

    def _opened(self) -> list[str]:
        """What comes before a command, so that the account can read what it executes."""
        closed = [
            parent
            for parent in Path(sys.executable).resolve().parents
            if parent.stat().st_mode & 5 != 5
        ]
        if not closed:
            return []
        (folder,) = closed  # more are not opened
        place = str(self.setting.folder / "closed")
        return ["unshare", "--mount", "sh", "-c", OPENED, str(folder), place]

    def kill_starter(self) -> None:
        """Kill the starter with SIGKILL."""
        pid = starter_pid(self.paths)
        assert pid is not None
        os.kill(pid, 9)
        until_ended(pid)

    def close(self) -> None:
        """End the server, the starter, and all that they have started."""
        if (pid := starter_pid(self.paths)) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, 15)
        super().close()
        self._remove_cgroups()

    def _remove_cgroups(self) -> None:
        """Remove the folders of its workloads' cgroups, once these are gone."""
        name = folder_of(str(self.paths.workloads.resolve()))
        for tree in hierarchies(
            Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
        ):
            for folder in (tree.own / name, tree.own.parent / name):
                with suppress(OSError):
                    folder.rmdir()


@contextmanager
def machine_pool(native: Path, settings: str = "", gpu: str = GPU) -> Iterator[MachinePool]:
    """A pool that is up, with these lines in the section [pool] of the machine's settings."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    with open_folder() as folder, ExitStack() as stack:
        setting = Setting(folder, native, [], gpu=gpu)
        for name in ("moiety-supervisor", "moiety-starter"):
            shutil.copy(native / name, folder / "native")
        config = folder / "config.toml"
        config.write_text(f'[pool]\nuser = "{ACCOUNT}"\n{settings}\n')
        config.chmod(0o644)
        setting.agent.environment["MOIETY_CONFIG"] = str(config)
        stack.enter_context(setting.agent)
        pool = MachinePool(setting)
        stack.callback(pool.close)
        assert "is up" in pool.as_root("up")
        yield pool
