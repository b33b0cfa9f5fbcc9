"""The paths of moiety's native libraries and of the stand-in driver."""

from __future__ import annotations

import os
from pathlib import Path

SHIM = "libmoiety.so"


def is_simulated() -> bool:
    """Whether this environment asks for the stand-in driver instead of NVIDIA's."""
    return bool(os.environ.get("MOIETY_SIMGPU"))


def native_dir() -> Path | None:
    """The directory with libmoiety.so and simgpu/: $MOIETY_NATIVE, the package's, or build/."""
    if named := os.environ.get("MOIETY_NATIVE"):
        return Path(named)
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "_native", package.parents[1] / "build"):
        if (candidate / SHIM).exists() or (candidate / "simgpu").is_dir():
            return candidate
    return None


def shim_path() -> Path | None:
    """libmoiety.so, if it is where it should be."""
    folder = native_dir()
    return folder / SHIM if folder and (folder / SHIM).exists() else None


def simgpu_dir() -> Path | None:
    """The directory with the stand-in driver and NVML."""
    folder = native_dir()
    return folder / "simgpu" if folder else None


def simgpu_driver() -> Path | None:
    """The stand-in for libcuda.so.1, if it is where it should be."""
    folder = simgpu_dir()
    path = folder / "libcuda.so.1" if folder else None
    return path if path and path.exists() else None


def simgpu_state_dir() -> Path:
    """The folder with the memory and the accounting of the simulated GPUs."""
    named = os.environ.get("MOIETY_SIMGPU_STATE")
    return Path(named) if named else Path(f"/dev/shm/moiety-simgpu-{os.getuid()}")
