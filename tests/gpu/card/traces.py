"""Which driver calls frameworks make here: recorded, packed, and summed up.

The recorder is taken from an installed moiety, from $MOIETY_NATIVE, or compiled here.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.gpu.card.run import Run
from tests.gpu.card.timing import compilers
from tests.traces.pack import pack
from tests.traces.recording import calls

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "tests" / "gpu" / "programs"
LIBRARY = "libmoiety-recorder.so"
FOLDER = "MOIETY_FACTS_TRACES"
"""in the environment: where the traces go; without it, only their sums are kept"""
CHOICES: dict[str, tuple[str, list[object], dict[str, str]]] = {
    "torch": ("torch", ["train.py", 4, 256, 1], {}),
    "torch-graph": ("torch", ["train.py", 4, 256, 1, "--graph"], {}),
    "torch-expandable": ("torch", ["train.py", 4, 256, 1], {
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "torch-async": ("torch", ["train.py", 4, 256, 1], {
        "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync",
        "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "cupy": ("cupy", ["cupy_sums.py"], {}),
    "jax": ("jax", ["jax_sums.py"], {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".05"}),
    "triton": ("triton", ["triton_sums.py"], {}),
    "numba": ("numba", ["numba_sums.py"], {}),
    "driver": ("", ["graphs.py", 64 << 20, 6, 3], {}),
}  # fmt: skip
"""name: module that it needs, program and its arguments, environment"""


def recorder(folder: Path) -> Path | None:
    """The recorder's library; None: it is not here, and there is no compiler."""
    for place in (os.environ.get("MOIETY_NATIVE"), installed()):
        if place and (Path(place) / LIBRARY).exists():
            return Path(place) / LIBRARY
    native = ROOT / "native"
    sources = [*sorted((native / "recorder").glob("*.c"))]
    sources += [native / "shim" / "lock.c", native / "shim" / "versions.c"]
    for command in compilers():
        if "nvcc" in command[0]:
            continue
        made = subprocess.run(
            [*command, "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-shared", "-fvisibility=hidden",
             "-ftls-model=initial-exec", f"-I{native}", *map(str, sources),
             "-o", str(folder / LIBRARY), "-ldl"],
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        if made.returncode == 0:
            return folder / LIBRARY
    return None


def installed() -> str | None:
    """Where an installed moiety has its libraries."""
    found = importlib.util.find_spec("moiety")
    return str(Path(found.origin).parent / "_native") if found and found.origin else None


def measure(run: Run) -> None:
    """One program after the other, each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="traces") as name:
        folder = Path(name)
        library = recorder(folder)
        run.note("recorder", str(library) if library else None)
        if library is None:
            return
        for one, (module, words, env) in CHOICES.items():
            if module and importlib.util.find_spec(module) is None:
                run.note(one, f"{module} is not installed here")
                continue
            if module and run.simulated:
                run.note(one, "NVIDIA's runtime does not run on simgpu")
                continue
            with run.part(one):
                run.note(one, record(run, one, words, env, library, folder / one))


def record(
    run: Run, name: str, words: list[object], env: dict[str, str], library: Path, folder: Path
) -> dict[str, Any]:
    """Run it, keep the trace, and say what is in it."""
    folder.mkdir()
    command = [sys.executable, str(PROGRAMS / str(words[0])), *map(str, words[1:])]
    done = subprocess.run(
        command,
        env={**os.environ, **env, "LD_PRELOAD": str(library), "MOIETY_RECORD": str(folder)},
        capture_output=True,
        text=True,
        timeout=max(min(run.left_s - 2, 60), 5),
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    recordings = sorted(folder.glob("*.calls"), key=lambda f: f.stat().st_size)
    if not recordings:
        raise RuntimeError("nothing was recorded")
    found = summary(recordings[-1])
    found["processes"] = len(recordings)
    if keep := os.environ.get(FOLDER):
        where = f"on {run.driver.name()}, CUDA {run.driver.get('cuDriverGetVersion')}"
        where = "on simgpu" if run.simulated else where
        found["packed"] = pack(recordings[-1], Path(keep) / f"{name}.calls.xz", where)
    return found


def summary(path: Path) -> dict[str, Any]:
    """How often what was called, which tables were fetched, what the recorder did not see."""
    remarks: list[tuple[str, str]] = []
    counts: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    tables: Counter[str] = Counter()
    for call in calls(path, remarks):
        counts[call.name] += 1
        if call.result:
            failed[f"{call.name} {call.result}"] += 1
        if call.name == "cuGetExportTable" and call.arguments[1].bytes:
            tables[call.arguments[1].bytes.hex()] += 1
    return {
        "calls": counts.total(),
        "functions": len(counts),
        "most": dict(counts.most_common(12)),
        "failed": dict(failed.most_common(12)),
        "export_tables": dict(tables),
        "unseen": sorted({text for word, text in remarks if word == "unseen"}),
        "not_exported": sorted({text for word, text in remarks if word == "not-exported"}),
    }
