"""NVIDIA's own headers, to hold our declarations against: they come in the wheel of its runtime.

They are kept in the cache outside the checkout.
"""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.native import cache_dir

WHEELS = ["nvidia-cuda-runtime-cu12==12.9.79", "nvidia-cuda-runtime==13.5.37"]


@pytest.fixture(scope="session", params=WHEELS, ids=["12.9", "13.5"])
def header(request: pytest.FixtureRequest) -> Path:
    """The folder with cuda.h and its neighbours, of one version."""
    wheel: str = request.param
    folder = cache_dir() / "cuda-headers" / re.sub(r"\W+", "-", wheel)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # tests may run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        _fetch(wheel, folder)
    return next(folder.rglob("cudaTypedefs.h")).parent


def _fetch(wheel: str, folder: Path) -> None:
    if not list(folder.rglob("cudaTypedefs.h")):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--retries", "0"]
        command += ["--timeout", "10", "-d", str(folder), wheel]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{wheel} cannot be had, so there is no cuda.h to compare with")
        for archive in folder.glob("*.whl"):
            with zipfile.ZipFile(archive) as content:
                names = content.namelist()
                content.extractall(folder, [n for n in names if re.search(r"/cuda\w*\.h$", n)])
            archive.unlink()
