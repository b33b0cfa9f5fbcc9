"""What the native tests share: programs on the stand-in driver, and NVIDIA's own headers.

The headers are there to hold our declarations against. They come in the wheel of NVIDIA's runtime,
and are kept in the cache outside the checkout.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.native import cache_dir, compile_c, native_dir
from tests.support.simgpu_programs import Build

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
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


@pytest.fixture(scope="module")
def simgpu() -> Path:
    """The folder with the stand-in driver."""
    folder = native_dir()
    if folder is None or not (folder / "simgpu" / "libcuda.so.1").exists():
        pytest.skip("the stand-in driver is not built: make test")
    return folder / "simgpu"


@pytest.fixture(scope="module")
def build(simgpu: Path, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A C program of the tests, by its name, compiled when it is asked for."""
    folder = tmp_path_factory.mktemp("simgpu")
    flags = [f"-I{ROOT / 'native'}", str(simgpu / "libcuda.so.1"), f"-Wl,-rpath,{simgpu}", "-ldl"]

    def make(name: str) -> Path:
        return compile_c([PROGRAMS / f"{name}.c"], folder / name, flags=flags)

    return make


@pytest.fixture
def gpu(simgpu: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment with GPUs of its own, small ones."""
    state = Path("/dev/shm") / f"moiety-test-{os.getpid()}-{tmp_path.name}"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MOIETY_SIM", "CUDA_"))}
    env |= {
        "MOIETY_SIMGPU": "A100-80:memory=256MiB,residue=2MiB,link=2GB/s,pageable=1GB/s",
        "MOIETY_SIMGPU_STATE": str(state),
        "KERNELS": str(simgpu / "kernels.elf"),
        "LD_LIBRARY_PATH": str(simgpu),
    }
    yield env
    shutil.rmtree(state, ignore_errors=True)
