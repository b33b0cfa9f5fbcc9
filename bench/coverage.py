"""How much of what CUDA programs ask a driver for is gated, moved or knowingly passed through.

The questions are those of NVIDIA's runtimes 12.4 and 13.5 at their start: native/cuda/requests.txt.
One is covered if it has a class in the shim's table and if cuGetProcAddress, in a process with the
shim, answers it with the right function in the right version and stream flavour: the driver's own
where it is passed through, the shim's elsewhere. Beside it stands the part that the same driver
answers so without the shim.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.figure import Figure
from moiety.devices.native import native_dir
from tests.support.entrypoints import PER_THREAD, Answer, Entry, Question, ask, requests, table

NATIVE = Path(__file__).resolve().parents[1] / "native"
GPU = "A100-80:memory=64MiB,driver=13050"
DRIVER, SHIM = "libcuda.so.1", "libmoiety.so"


def expected(questions: Sequence[Question]) -> Iterator[Entry | None]:
    """What the table has for each question; None: nothing in that version and flavour."""
    known = {(f.name, f.since, bool(f.flavour)): entry for f, entry in table(NATIVE).items()}
    for name, version, flags in questions:
        yield known.get((name, version, flags == PER_THREAD))


def right(
    answers: Sequence[Answer], entries: Sequence[Entry | None], *, shared: bool
) -> list[bool]:
    """Which answers are what the table says."""
    return [
        entry is not None
        and bool(entry.kind)
        and answer == (SHIM if shared and entry.kind != "PASS" else DRIVER, entry.symbol)
        for answer, entry in zip(answers, entries, strict=True)
    ]


def measure() -> list[Figure]:
    """entrypoints_covered_ratio."""
    built = native_dir()
    if built is None:
        raise FileNotFoundError("the native libraries are not built: make bench builds them")
    questions = requests(NATIVE)
    entries = list(expected(questions))
    with tempfile.TemporaryDirectory(prefix="moiety-coverage") as state:
        alone = {
            "MOIETY_SIMGPU": GPU,
            "MOIETY_SIMGPU_STATE": state,
            "LD_LIBRARY_PATH": str(built / "simgpu"),
        }
        shared = {**alone, "LD_PRELOAD": str(built / SHIM)}
        bare = right(ask(questions, alone), entries, shared=False)
        with_shim = right(ask(questions, shared), entries, shared=True)
    missed = sorted({q.name for q, ok in zip(questions, with_shim, strict=True) if not ok})
    return [
        Figure(
            name="entrypoints_covered_ratio",
            value=sum(with_shim) / len(questions),
            unit="",
            bar=1.0,
            better="higher",
            device=f"simgpu {GPU}",
            samples=len(questions),
            baseline=sum(bare) / len(questions),
            note=f"missed: {', '.join(missed)}" if missed else "",
        )
    ]
