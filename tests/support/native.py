"""Native code in tests: where the built libraries are, and a compiler for small C programs."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from moiety.devices.native import native_dir

__all__ = ["cache_dir", "compile_c", "compiler", "native_dir"]


def cache_dir() -> Path:
    """Where things are kept that are expensive to make and safe to throw away."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "moiety"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def compiler() -> tuple[str, ...]:
    """The C compiler: zig from PyPI if it is installed, otherwise the machine's.

    Raises:
        FileNotFoundError: there is neither.
    """
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return (found,)
    raise FileNotFoundError("there is no C compiler: pip install ziglang")


def compile_c(
    sources: Iterable[Path | str],
    out: Path | str,
    *,
    shared: bool = False,
    flags: Sequence[str] = (),
) -> Path:
    """Compiles C files to a program, or with `shared` to a shared object, and returns its path.

    The result is kept under what went into it: the sources, the headers that they lead to (in any
    folder given with -I), the flags and the compiler.

    Raises:
        RuntimeError: the compiler says no; the message is the compiler's.
    """
    files = [Path(source) for source in sources]
    how = ["-std=gnu11", "-O1", "-g", "-D_GNU_SOURCE", "-Wall", "-Wextra"]
    how += ["-shared", "-fPIC"] if shared else []
    digest = hashlib.sha256(repr((compiler(), how, tuple(flags))).encode())
    for file in files + _headers(files, flags):
        digest.update(file.read_bytes())
    kept = cache_dir() / "c" / digest.hexdigest()[:32]
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            made = Path(folder) / "made"
            command = [*compiler(), *how, *map(str, files), "-o", str(made), *flags]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
            made.rename(kept)  # several test runs may compile the same at the same time
    target = Path(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        copied = shutil.copy2(kept, Path(folder) / target.name)
        Path(copied).rename(target)  # a program of that name may be running
    return target


def _headers(sources: list[Path], flags: Sequence[str]) -> list[Path]:
    """Every header beside a source, and every one below an include folder of ours."""
    folders = {source.parent for source in sources}
    beside = {header for folder in folders for header in folder.glob("*.h")}
    included = {
        header
        for flag in flags
        if flag.startswith("-I")
        for pattern in ("**/*.h", "**/*.def")
        for header in Path(flag[2:]).glob(pattern)
    }
    return sorted(beside | included)
