"""Profilers, debuggers and sanitizers: what they need beside the shim, and which are refused.

What is known of each, and how, stands in docs/howto-profilers.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moiety.devices.elf import needed
from moiety.model.errors import ToolRefused

SANITIZER: Final = re.compile(r"lib(clang_rt\.)?(asan|tsan|lsan|msan|ubsan)[\w.-]*\.so[\d.]*")
"""runtimes that end the program unless the loader takes them first"""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that cannot do its work on a shared GPU."""

    why: str
    instead: str


ALONE: Final = "MOIETY_DISABLE=1, on a GPU that nobody shares meanwhile (moiety ps)"
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
"""variables that tell of a tool, by what is in them"""


def refuse(program: str, environment: Mapping[str, str]) -> None:
    """Raise ToolRefused if this program is a tool that cannot share, or runs under one."""
    name = Path(program).name
    name = ALIASES.get(name, name)
    if name not in REFUSED:
        name = _around(environment)
    if name:
        raise ToolRefused(name, REFUSED[name].why, REFUSED[name].instead)


def preloaded(shim: str, program: str, before: str) -> str:
    """LD_PRELOAD for a program with the shim in it, and with what was `before` in it.

    Runtimes of sanitizers come first, also that of the program itself, as they insist on it.
    """
    others = [part for part in before.replace(":", " ").split() if part != shim]
    try:
        own = [name for name in needed(program) if SANITIZER.fullmatch(name)]
    except OSError:
        own = []
    first = [part for part in others if SANITIZER.fullmatch(Path(part).name)]
    known = {Path(part).name for part in first}
    first += [name for name in own if name not in known]
    return ":".join([*first, shim, *(part for part in others if part not in first)])


def _around(environment: Mapping[str, str]) -> str:
    """The tool that this process runs under; empty if there is none that matters."""
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
