"""Becomes the starter: `python -m moiety.pool.machine.starter_process SOCKET-FD FOLDER-FD FILE`.

It makes the cgroups that the starter gets, says in FILE what they can, and executes the starter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from moiety.pool.machine import cgroups
from moiety.pool.starter.programs import STARTER, program


def main(arguments: Sequence[str]) -> None:
    """Never returns."""
    socket_fd, folder_fd, said = arguments
    trees = cgroups.hierarchies(
        Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    )
    workloads = os.readlink(f"/proc/self/fd/{folder_fd}")
    folders = cgroups.make(trees, cgroups.folder_of(workloads))
    written = Path(f"{said}.new")
    written.write_text(cgroups.described(folders))
    written.chmod(0o644)
    written.replace(said)
    fds = [int(socket_fd), int(folder_fd)]
    fds += [os.open(folder, os.O_RDONLY | os.O_DIRECTORY) for folder in folders]
    for fd in fds:
        os.set_inheritable(fd, True)
    os.execv(program(STARTER), [STARTER, *map(str, fds)])


if __name__ == "__main__":
    main(sys.argv[1:])
