"""The native programs that run workloads, and how they are called.

The supervisor runs one workload. The starter starts supervisors by the ids that it is sent, and
settles workloads whose supervisor has died. Both outlive the process that started them.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from moiety.devices.native import native_dir
from moiety.model.errors import NativeLibraryMissing

SUPERVISOR: Final = "moiety-supervisor"
STARTER: Final = "moiety-starter"
ALREADY_STARTED: Final = 75
"""The supervisor's exit code if this attempt was started before."""


def program(name: str) -> Path:
    """Where one of our programs is; raises NativeLibraryMissing."""
    folder = native_dir()
    if folder is None or not (folder / name).exists():
        raise NativeLibraryMissing(name)
    return folder / name


def spec_file(spec: bytes) -> int:
    """A descriptor of a file of memory that has this spec, and can be changed no more."""
    fd = os.memfd_create("moiety-spec", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(fd, "wb", closefd=False) as file:
        file.write(spec)
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def start_supervisor(
    spec: bytes, folder: int, cgroups: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a supervisor with the rights of this process; `folder` is the state folder, opened."""
    spec_fd = spec_file(spec)
    try:
        fds = (spec_fd, folder, *cgroups)
        return subprocess.Popen([program(SUPERVISOR), *map(str, fds)], pass_fds=fds)
    finally:
        os.close(spec_fd)
