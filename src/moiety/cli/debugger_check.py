"""Profilers, debuggers and sanitizers: what they need beside the shim, and which are refused.

docs/howto-profilers.md has the facts about each tool, and their sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moiety.model.errors import ToolRefused


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that cannot do its work on a shared GPU."""

    why: str
    instead: str


ALONE: Final = "MOIETY_DISABLE=1, on a GPU that no other program uses (moiety ps)"
REFUSED: Final = {
    "ncu": Tool("its counters are those of the whole GPU, and it runs kernels many times", ALONE),
    "compute-sanitizer": Tool(
        "it would watch over the chunks that moiety makes, and miss what goes beyond an allocation",
        ALONE,
    ),
    "cuda-gdb": Tool("a kernel that stands at a breakpoint keeps the GPU from all others", ALONE),
}
ALIASES: Final = {"nv-nsight-cu-cli": "ncu", "cuda-memcheck": "compute-sanitizer"}
MARKS: Final = (
    ("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "", "ncu"),
    ("LD_PRELOAD", "libcuda-injection.so", "ncu"),
    ("CUDA_INJECTION64_PATH", "libsanitizer-collection.so", "compute-sanitizer"),
    ("LD_PRELOAD", "libsanitizer-collection.so", "compute-sanitizer"),
    ("NVTX_INJECTION64_PATH", "libsanitizer-collection.so", "compute-sanitizer"),
)
"""Variable, text in its value, and the tool whose presence that shows."""


def refuse(program: str, environment: Mapping[str, str]) -> None:
    """Raise ToolRefused if this program is a tool that cannot share, or runs under one."""
    name = Path(program).name
    name = ALIASES.get(name, name)
    if name not in REFUSED:
        name = _around(environment)
    if name:
        raise ToolRefused(name, REFUSED[name].why, REFUSED[name].instead)


def _around(environment: Mapping[str, str]) -> str:
    """The refused tool that this process runs under; empty if there is none."""
    for variable, text, name in MARKS:
        found = environment.get(variable)
        if found and text in found:
            return name
    return "cuda-gdb" if _tracer() == "cuda-gdb" else ""


def _tracer() -> str:
    try:
        status = Path("/proc/self/status").read_text()
        pid = re.search(r"^TracerPid:\s*(\d+)$", status, re.MULTILINE)
        return Path(f"/proc/{pid[1]}/comm").read_text().strip() if pid and pid[1] != "0" else ""
    except OSError:
        return ""
