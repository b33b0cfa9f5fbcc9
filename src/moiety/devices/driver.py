"""Checks that the NVIDIA driver of this machine has the functions that sharing needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moiety.devices.elf import exported, read_elf
from moiety.devices.loader import find_library
from moiety.devices.native import is_simulated, shim_path, simgpu_driver
from moiety.model import errors

LIBRARY: Final = "libcuda.so.1"
NEEDED: Final[Mapping[str, str]] = {
    "cuDeviceGetUuid": "9.2",
    "cuGetProcAddress": "11.3",
    "cuMemAddressFree": "10.2",
    "cuMemAddressReserve": "10.2",
    "cuMemCreate": "10.2",
    "cuMemGetAllocationGranularity": "10.2",
    "cuMemMap": "10.2",
    "cuMemRelease": "10.2",
    "cuMemSetAccess": "10.2",
    "cuMemUnmap": "10.2",
}
"""The functions without which memory cannot be evicted and restored, and their first CUDA."""
KNOWN_CUDA: Final = 13050
"""The newest CUDA with all its entry points in the shim's table, as cuDriverGetVersion counts."""
SMALL_BYTES: Final = 4 << 20
"""NVIDIA's driver libraries are several times as large, the toolkit's stubs a fraction of it."""
STUB_ERROR: Final = 34
"""CUDA_ERROR_STUB_LIBRARY"""
VERSION_TIMEOUT_S: Final = 20.0
ASK_VERSION: Final = """
import ctypes, sys
version = ctypes.c_int()
code = ctypes.CDLL(sys.argv[1]).cuDriverGetVersion(ctypes.byref(version))
print(version.value if code == 0 else -code)
"""


def require_shim() -> Path:
    """libmoiety.so; raises NativeLibraryMissing."""
    path = shim_path()
    if path is None:
        raise errors.NativeLibraryMissing("libmoiety.so")
    if any(letter in str(path) for letter in " :"):
        # LD_PRELOAD cannot quote them
        raise errors.NativeLibraryMissing(
            f"a path to libmoiety.so without blanks ({path} has some)"
        )
    return path


def require_driver(environment: Mapping[str, str]) -> Path:
    """The driver library that a program would load; raises NoDriver or DriverTooOld."""
    if is_simulated():
        path = simgpu_driver()
        if path is None:
            raise errors.NativeLibraryMissing(f"simgpu/{LIBRARY}")
        return path
    path = find_library(LIBRARY, environment)
    if path is None:
        raise errors.NoDriver(f"the loader does not find {LIBRARY}")
    if not is_library(path):
        raise errors.NoDriver(f"{path.resolve()} is no library for this machine")
    if problem := stub_problem(path):
        raise errors.NoDriver(f"{path.resolve()} {problem}; take it out of LD_LIBRARY_PATH")
    if lacking := missing(path):
        raise errors.DriverTooOld(str(path.resolve()), lacking)
    return path


def is_library(path: Path) -> bool:
    """Whether the loader could load it into a program of this machine."""
    try:
        elf = read_elf(path)
    except OSError:
        return False
    return elf is not None and (elf.bits, elf.machine) == (64, os.uname().machine)


def driver_version(path: Path) -> int:
    """What cuDriverGetVersion of a library says, 0 if nothing; an error is below zero.

    It is read in another process: a broken driver must not end this one.
    """
    import subprocess  # only here: it is rarely asked

    command = [sys.executable, "-c", ASK_VERSION, str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
        return int(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return 0


def stub_problem(path: Path) -> str | None:
    """Why a library is no driver although it has the driver's name; None: it may be one.

    Only a small one is asked, because that takes some ten milliseconds.
    """
    try:
        small = path.stat().st_size < SMALL_BYTES
    except OSError:
        return None
    version = driver_version(path) if small else 1
    if version > 0:
        return None
    if version == -STUB_ERROR:
        return "is a stub of the CUDA toolkit, which programs are linked with, and no driver"
    return "has the driver's name, and does not tell a driver's version"


def missing(path: Path) -> list[str]:
    """The entry points that a driver library lacks; [] also if it cannot be read."""
    try:
        names = exported(path)
    except OSError:
        return []
    return [name for name in NEEDED if name not in names] if names else []
