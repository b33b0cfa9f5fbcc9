"""Three unmodified CUDA programs, each of which wants 80 % of the GPU, on one GPU.

They run alone, and then all at once under `moiety run`; a table says what each took. With an
NVIDIA GPU that is what they use (a part of its memory, so that the sum does not fit); otherwise
the stand-in driver simgpu, and the table says so.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from moiety.devices.native import simgpu_dir
from moiety.model.units import format_bytes
from moiety.testing.node import Node

HERE = Path(__file__).resolve().parent
SIMGPU = "A100-80:memory=320MiB,link=4GB/s"
SHARE = 0.8
"""Of the GPU's memory, wanted by each program."""
REAL_CAPACITY_BYTES = 8 << 30
"""Of a real GPU: enough to see, little enough for any host's memory."""
GPU_MS, CPU_MS = 400, 500
"""A round of a program: work on the GPU, then work without it."""


Running = subprocess.Popen[str]


@dataclass(frozen=True)
class Program:
    """One of the three, and how its times come out."""

    name: str
    command: list[str]


def has_gpu() -> bool:
    """Whether an NVIDIA driver finds a GPU here (asked in a process of its own)."""
    question = (
        "import ctypes, sys; d = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int();"
        "sys.exit(d.cuInit(0) or d.cuDeviceGetCount(ctypes.byref(n)) or n.value == 0)"
    )
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return subprocess.run([sys.executable, "-c", question], check=False).returncode == 0


def compile_c(source: Path, out: Path, *flags: str) -> Path:
    """Compile with the C compiler that came with the project's Python packages."""
    command = [sys.executable, "-m", "ziglang", "cc", "-O2", f"-I{HERE.parent / 'native'}"]
    done = subprocess.run(
        [*command, str(source), "-o", str(out), *flags], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"demo: could not compile {source.name}:\n{done.stderr}")
    return out


def build(folder: Path, *, simulated: bool) -> tuple[Path, list[list[str]]]:
    """The kernels, and the three programs as commands without their arguments."""
    simgpu = simgpu_dir()
    if simgpu is None:
        raise SystemExit("demo: the native libraries are not built; run make demo")
    target = ["-target", "x86_64-linux-gnu.2.17"]
    if simulated:
        kernels = simgpu / "kernels.elf"
    else:
        ptx = ["-target", "nvptx64-cuda", "-mcpu=sm_75", "-S"]
        kernels = compile_c(HERE / "kernels.c", folder / "kernels.ptx", *ptx)
    # To link with, any libcuda.so.1 will do: when it runs, the program finds the real one.
    driver = [str(simgpu / "libcuda.so.1"), "-Wl,--allow-shlib-undefined"]
    linked = compile_c(HERE / "worker.c", folder / "worker", *target, *driver, "-ldl")
    looked = compile_c(HERE / "worker.c", folder / "worker-lookup", *target, "-DLOOKUP", "-ldl")
    return kernels, [
        [str(linked)],
        [str(looked)],
        [sys.executable, str(HERE / "worker.py")],
    ]


def wait_for(processes: Sequence[Running], began_s: float) -> list[float]:
    """Seconds until each ended; SystemExit when one of them was wrong."""
    ended: dict[int, float] = {}
    while len(ended) < len(processes):
        for i, process in enumerate(processes):
            if i not in ended and process.poll() is not None:
                ended[i] = time.monotonic() - began_s
                out, err = process.communicate()
                if process.returncode != 0:
                    raise SystemExit(
                        f"demo: program {i + 1} ended with {process.returncode}: {out}{err}"
                    )
        time.sleep(0.005)
    return [ended[i] for i in range(len(processes))]


def capacity_bytes(node: Node) -> int:
    """What the agent shares out of the first GPU."""
    return int(node.json("status")["gpus"][0]["capacity_bytes"])


def show(programs: Sequence[Program], alone: Sequence[float], shared: Sequence[float]) -> None:
    """The table."""
    print(f"\n  {'program':<28}{'alone':>9}{'shared':>9}")
    for program, one, all_ in zip(programs, alone, shared, strict=True):
        print(f"  {program.name:<28}{one:>7.1f} s{all_:>7.1f} s")
    print(f"  {'one after the other':<28}{sum(alone):>7.1f} s")
    print(f"  {'all shared':<28}{'':>9}{max(shared):>7.1f} s")
    print(
        f"\nAll results are right. Sharing took {max(shared) / sum(alone):.0%} of the time that"
        " one after the other takes."
    )


def main() -> int:
    """Build, run alone, run shared, show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--simulate", action="store_true", help="do not use a GPU that is there")
    args = parser.parse_args()
    simulated = args.simulate or not has_gpu()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it was ignored
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="moiety-demo-"))
    try:
        print("demo: building three programs ...", flush=True)
        kernels, commands = build(folder, simulated=simulated)
        with Node(folder, SIMGPU if simulated else None) as node:
            options = [] if simulated else ["--capacity", str(REAL_CAPACITY_BYTES)]
            node.start_agent(*options)
            return play(node, kernels, commands, args.rounds, simulated=simulated)
    except KeyboardInterrupt:
        print("\ndemo: stopped", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play(
    node: Node, kernels: Path, commands: list[list[str]], rounds: int, *, simulated: bool
) -> int:
    """Both runs, with the agent up."""
    capacity = capacity_bytes(node)
    each = int(capacity * SHARE) // 8 * 8
    name = node.json("status")["gpus"][0]["name"]
    print(
        f"demo: {'simgpu, the stand-in driver (no NVIDIA GPU here)' if simulated else name}:"
        f" {format_bytes(capacity)} of GPU memory to share, {format_bytes(each)} for each program"
    )
    names = ["C, linked with the driver", "C, driver looked up", "Python, cuda-core"]
    programs = [
        Program(label, [*command, str(kernels), str(each), *map(str, (rounds, GPU_MS, CPU_MS, i))])
        for i, (label, command) in enumerate(zip(names, commands, strict=True))
    ]
    alone = []
    for program in programs:
        print(f"demo: {program.name}, alone ...", flush=True)
        began_s = time.monotonic()
        alone += wait_for([node.run_alone(program.command)], began_s)
    print("demo: all three at once, under moiety run ...", flush=True)
    began_s = time.monotonic()
    shared = wait_for([node.run(p.command) for p in programs], began_s)
    show(programs, alone, shared)
    return 0


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
