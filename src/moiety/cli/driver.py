"""Whether the NVIDIA driver of this machine has what sharing needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moiety.cli.elf import exported
from moiety.cli.loader import find_library
from moiety.devices.native import is_simulated, shim_path, simgpu_dir
from moiety.model import errors

LIBRARY: Final = "libcuda.so.1"
NEEDED: Final = (
    "cuDeviceGetUuid",
    "cuGetProcAddress",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemGetAllocationGranularity",
    "cuMemMap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
)
"""without these memory cannot leave a GPU and come back at the same address"""


def require_shim() -> Path:
    """libmoiety.so; raises NativeLibraryMissing."""
    path = shim_path()
    if path is None:
        raise errors.NativeLibraryMissing("libmoiety.so")
    if any(letter in str(path) for letter in " :"):
        # LD_PRELOAD knows no way to quote them
        raise errors.NativeLibraryMissing(
            f"a path to libmoiety.so without blanks ({path} has some)"
        )
    return path


def require_driver(environment: Mapping[str, str]) -> Path:
    """The driver library that a program would load; raises NoDriver or DriverTooOld."""
    if is_simulated():
        folder = simgpu_dir()
        path = folder / LIBRARY if folder else None
        if path is None or not path.exists():
            raise errors.NativeLibraryMissing(f"simgpu/{LIBRARY}")
        return path
    path = find_library(LIBRARY, environment)
    if path is None:
        raise errors.NoDriver(f"the loader does not find {LIBRARY}")
    if lacking := missing(path):
        raise errors.DriverTooOld(str(path.resolve()), lacking)
    return path


def missing(path: Path) -> list[str]:
    """The entry points that a driver library lacks; [] also if it cannot be read."""
    try:
        names = exported(path)
    except OSError:
        return []
    return [name for name in NEEDED if name not in names] if names else []
