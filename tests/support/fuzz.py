"""Fuzz targets, built with whatever sanitizers this machine's compilers bring."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.native import compiler

INPUTS: Final = 20_000
"""In a test; a few packets each."""
FUZZ: Final = Path("tests", "native", "fuzz")
SHIM: Final = [Path("native", "shim", f"{name}.c") for name in ("agent/socket", "base/lock")]


def clang() -> str | None:
    """Where clang is, also as Debian calls it (clang-16 and libclang-rt-16-dev)."""
    names = ["clang", *(f"clang-{version}" for version in range(22, 13, -1))]
    return next((found for name in names if (found := shutil.which(name))), None)


def sanitized(
    sources: Sequence[Path], out: Path, checkout: Path, sanitizers: str, *flags: str
) -> Path:
    """A program of `checkout`'s sources, as gcc or clang builds it with these sanitizers.

    Without either, zig builds it, with the sanitizer for undefined behaviour alone.

    Raises:
        RuntimeError: no compiler of this machine can build it.
    """
    own = next((found for name in ("gcc", "clang") if (found := shutil.which(name))), None)
    ways = [[own, f"-fsanitize={sanitizers}"]] if own else []
    if "undefined" in sanitizers.split(","):
        ways.append([*compiler(), "-fsanitize=undefined"])
    return _built_in_some_way(ways, sources, out, checkout, *flags)


def _built_in_some_way(
    ways: Sequence[Sequence[str]], sources: Sequence[Path], out: Path, checkout: Path, *flags: str
) -> Path:
    said = ""
    for way in ways:
        command = [*way, "-fno-sanitize-recover=all", "-std=gnu11", "-O1", "-g", "-D_GNU_SOURCE"]
        command += [f"-I{checkout / 'native'}", *flags]
        command += [*(str(checkout / source) for source in sources), "-o", str(out), "-pthread"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return out
        said += done.stderr
    raise RuntimeError(said)


def built(folder: Path, checkout: Path, *, libfuzzer: bool = False) -> Path:
    """The target for the shim's connection, as a program in `folder`; from `checkout`'s sources.

    `libfuzzer` needs clang, and takes libFuzzer's arguments.

    Raises:
        RuntimeError: no compiler of this machine can build it.
    """
    sources = [FUZZ / "socket_target.c", *SHIM]
    out = folder / "fuzz-socket"
    if libfuzzer:
        way = [clang() or "clang", "-fsanitize=fuzzer,address,undefined"]
        return _built_in_some_way([way], sources, out, checkout)
    return sanitized([*sources, FUZZ / "fuzz_main.c"], out, checkout, "address,undefined")


def count(said: str) -> int:
    """The packets that the driver says it sent."""
    found = re.search(r"(\d+) packets", said)
    if found is None:
        raise ValueError(f"no count in {said!r}")
    return int(found[1])
