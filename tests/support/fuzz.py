"""The shim's fuzz targets, built with whatever sanitizers this machine's compilers bring."""

from __future__ import annotations

import re
import shutil
import subprocess
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


def built(folder: Path, checkout: Path, *, libfuzzer: bool = False) -> Path:
    """The target for the shim's connection, as a program in `folder`; from `checkout`'s sources.

    With gcc or clang it is watched by the sanitizers for addresses and undefined behaviour, with
    zig alone by the latter. `libfuzzer` needs clang, and takes libFuzzer's arguments.

    Raises:
        RuntimeError: no compiler of this machine can build it.
    """
    own = next((found for name in ("gcc", "clang") if (found := shutil.which(name))), None)
    ways = [[*compiler(), "-fsanitize=undefined"]]
    if own:
        ways.insert(0, [own, "-fsanitize=address,undefined"])
    if libfuzzer:
        ways = [[clang() or "clang", "-fsanitize=fuzzer,address,undefined"]]
    parts = [FUZZ / "socket_target.c", *SHIM] + ([] if libfuzzer else [FUZZ / "fuzz_main.c"])
    sources = [checkout / part for part in parts]
    out = folder / "fuzz-socket"
    said = ""
    for way in ways:
        command = [*way, "-fno-sanitize-recover=all", "-std=gnu11", "-O1", "-g", "-D_GNU_SOURCE"]
        command += [f"-I{checkout / 'native'}", *map(str, sources), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return out
        said += done.stderr
    raise RuntimeError(said)


def count(said: str) -> int:
    """The packets that the driver says it sent."""
    found = re.search(r"(\d+) packets", said)
    if found is None:
        raise ValueError(f"no count in {said!r}")
    return int(found[1])
