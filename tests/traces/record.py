"""Records programs on simgpu, as tests/traces/recorded has them.

    MOIETY_NATIVE=build python -m tests.traces.record [NAME...]

Where simgpu has learned something new, its traces are made again with this.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.native import compile_c, native_dir
from tests.traces.pack import pack
from tests.traces.trace import FOLDER

ROOT = Path(__file__).resolve().parents[2]
GPU = "A100-80:memory=512MiB,link=8GB/s"
MIB = 1 << 20
HERE = "on simgpu"

Command = list[str]


def programs(native: Path, folder: Path) -> dict[str, Command]:
    """Those that need nothing but this checkout."""
    kernels = str(native / "simgpu" / "kernels.elf")
    flags = [f"-I{ROOT / 'native'}", str(native / "simgpu" / "libcuda.so.1"), "-ldl", "-lpthread"]
    own = ROOT / "tests" / "native" / "programs"
    built = {
        name: str(compile_c([source], folder / name, flags=flags))
        for name, source in (
            ("worker", ROOT / "demo" / "worker.c"),
            ("copies", own / "simgpu_copies.c"),
            ("threads", own / "four_threads.c"),
        )
    }
    size = 64 * MIB
    core = ROOT / "demo" / "worker.py"
    graphs = ROOT / "tests" / "gpu" / "programs" / "graphs.py"
    lines = {
        "worker": (built["worker"], kernels, size, 4, 0, 0, 1),
        "copies": (built["copies"],),
        "threads": (built["threads"], kernels),
        "cuda-core": (sys.executable, core, kernels, size, 3, 0, 0, 1),
        "python-graphs": (sys.executable, graphs, size, 6, 3),
    }
    return {name: [str(word) for word in line] for name, line in lines.items()}


def record(
    command: Sequence[str],
    recorder: Path,
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float = 120.0,
) -> list[Path]:
    """Run a program and return the recordings of its processes, the longest first.

    Raises:
        RuntimeError: it failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    preload = os.pathsep.join(
        part for part in (str(recorder), environment.get("LD_PRELOAD", "")) if part
    )
    env = {**environment, "LD_PRELOAD": preload, "MOIETY_RECORD": str(folder)}
    done = subprocess.run(
        list(command), env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=timeout_s, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"it ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return sorted(folder.glob("*.calls"), key=lambda file: file.stat().st_size, reverse=True)


def main() -> int:
    """Record them."""
    native = native_dir()
    if native is None:
        raise SystemExit("the native libraries are not built: cmake --build build")
    with tempfile.TemporaryDirectory(prefix="traces") as name:
        folder = Path(name)
        env = {
            **os.environ,
            "MOIETY_SIMGPU": GPU,
            "MOIETY_SIMGPU_STATE": str(folder / "state"),
            "LD_LIBRARY_PATH": str(native / "simgpu"),
            "KERNELS": str(native / "simgpu" / "kernels.elf"),
        }
        found = programs(native, folder)
        for one in sys.argv[1:] or found:
            recordings = record(
                found[one], native / "libmoiety-recorder.so", folder / "calls" / one, env
            )
            print(one, pack(recordings[0], FOLDER / f"{one}.calls.xz", HERE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
