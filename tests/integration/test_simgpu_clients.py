"""Unmodified clients on the stand-in driver: NVIDIA's packages and people's tools."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Run = Callable[..., str]


@pytest.fixture
def run(native: Path, tmp_path: Path) -> Iterator[Run]:
    """Runs a Python program with two simulated GPUs of its own."""
    state = Path("/dev/shm") / f"moiety-test-{os.getpid()}-{tmp_path.name}"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MOIETY_SIM", "CUDA_"))}
    env |= {
        "MOIETY_SIMGPU": "2xA100-80:memory=1GiB,residue=8MiB",
        "MOIETY_SIMGPU_STATE": str(state),
        "KERNELS": str(native / "simgpu" / "kernels.elf"),
        "LD_LIBRARY_PATH": str(native / "simgpu"),
    }

    def program(*args: str) -> str:
        done = subprocess.run(
            [sys.executable, *args], env=env, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    yield program
    shutil.rmtree(state, ignore_errors=True)


def need(*modules: str) -> None:
    for module in modules:
        try:
            there = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            there = False
        if not there:
            pytest.skip(f"{module} is not installed")


BINDINGS = """
import ctypes, os
from cuda.bindings import driver as d

def ok(result):
    assert result[0] == d.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) == 2 else result[1:]

ok(d.cuInit(0))
assert ok(d.cuDeviceGetCount()) == 2
device = ok(d.cuDeviceGet(0))
assert b"(simgpu)" in ok(d.cuDeviceGetName(100, device))
context = ok(d.cuDevicePrimaryCtxRetain(device))
ok(d.cuCtxSetCurrent(context))
free, total = ok(d.cuMemGetInfo())
assert (total - free) >> 20 == 8
memory = ok(d.cuMemAlloc(8000))
module = ok(d.cuModuleLoadData(open(os.environ["KERNELS"], "rb").read()))
fill = ok(d.cuModuleGetFunction(module, b"fill_u64"))
stream = ok(d.cuStreamCreate(1))
parameters = ((memory, 1000, 7), (None, ctypes.c_uint64, ctypes.c_uint64))
ok(d.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, parameters, 0))
ok(d.cuStreamSynchronize(stream))
words = (ctypes.c_uint64 * 1000)()
ok(d.cuMemcpyDtoH(ctypes.addressof(words), memory, 8000))
assert words[0] == 0x63CBE1E459320DD7, hex(words[0])
assert d.cuModuleLoadData(b".version 7.0")[0] == d.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU
ok(d.cuMemFree(memory))
print("ok")
"""

CORE = """
import ctypes, os
from cuda.core import Device, LaunchConfig, ObjectCode, launch
from cuda.bindings import driver as d

device = Device(1)
device.set_current()
assert device.name.endswith("(simgpu)")
assert device.compute_capability == (8, 0)
stream = device.create_stream()
memory = device.allocate(8000, stream=stream)
code = ObjectCode.from_cubin(open(os.environ["KERNELS"], "rb").read())
shape = LaunchConfig(grid=1, block=1)
fill = code.get_kernel("fill_u64")
launch(stream, shape, fill, memory, ctypes.c_uint64(1000), ctypes.c_uint64(7))
event = stream.record()
event.sync()
assert event.is_done
stream.sync()
words = (ctypes.c_uint64 * 1000)()
assert d.cuMemcpyDtoH(ctypes.addressof(words), int(memory.handle), 8000)[0] == 0
assert words[0] == 0x63CBE1E459320DD7, hex(words[0])
memory.close()
stream.close()
print("ok")
"""

NVML = """
import os, subprocess, sys
import pynvml as n

n.nvmlInit()
assert n.nvmlDeviceGetCount() == 2
gpu = n.nvmlDeviceGetHandleByIndex(0)
assert n.nvmlDeviceGetMemoryInfo(gpu).used == 0
assert n.nvmlDeviceGetComputeRunningProcesses(gpu) == []
uuid = n.nvmlDeviceGetUUID(gpu)
assert n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(uuid)) == 0
user = subprocess.Popen(
    [sys.executable, "-c", '''
import ctypes, sys
d = ctypes.CDLL("libcuda.so.1")
context, memory, uuid = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.create_string_buffer(16)
assert d.cuInit(0) == 0
assert d.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert d.cuCtxSetCurrent(context) == 0
assert d.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(100 << 20)) == 0
assert d.cuDeviceGetUuid_v2(uuid, 0) == 0
print(uuid.raw.hex(), flush=True)
sys.stdin.read()
'''],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
said = user.stdout.readline().strip()
assert uuid.replace("-", "").removeprefix("GPU") == said
(process,) = n.nvmlDeviceGetComputeRunningProcesses(gpu)
assert (process.pid, process.usedGpuMemory >> 20) == (user.pid, 108)
assert n.nvmlDeviceGetMemoryInfo(gpu).used >> 20 == 108
user.kill()
os.waitid(os.P_PID, user.pid, os.WEXITED | os.WNOWAIT)
assert n.nvmlDeviceGetMemoryInfo(gpu).used == 0
assert n.nvmlDeviceGetComputeRunningProcesses(gpu) == []
assert n.nvmlSystemGetCudaDriverVersion() == 13000
assert 0 < n.nvmlDeviceGetTemperature(gpu, 0) < 100
assert list(n.nvmlDeviceGetMigMode(gpu)) == [0, 0]
try:
    n.nvmlDeviceGetMaxMigDeviceCount(gpu)
except n.NVMLError_NotSupported:
    print("ok")
"""


def test_nvidias_bindings_run(run: Run) -> None:
    need("cuda.bindings")
    assert run("-c", BINDINGS) == "ok\n"


def test_nvidias_core_runs(run: Run) -> None:
    need("cuda.bindings", "cuda.core")
    assert run("-c", CORE) == "ok\n"


def test_nvml_tells_who_uses_what(run: Run) -> None:
    need("pynvml")
    assert run("-c", NVML) == "ok\n"


def test_gpustat_shows_the_gpus(run: Run) -> None:
    need("gpustat")
    shown = run("-m", "gpustat", "--no-color")
    assert shown.count("NVIDIA A100-SXM4-80GB (simgpu)") == 2


def test_nvitop_shows_the_gpus(run: Run) -> None:
    need("nvitop")
    shown = run("-m", "nvitop", "-1", "--no-unicode")
    assert "1024MiB" in shown or "1.00GiB" in shown
