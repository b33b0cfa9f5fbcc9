"""Runs clang-tidy over our C: tidy.py BUILD [FILE]...

The native build in BUILD says how each file is compiled; sources outside it (demo, tests, bench)
are read with the same flags. The C library's headers are the ones that zig brings along, so this
finds the same on every machine, also where no compiler is installed.

A file that was found right is not read again by any checkout of this machine, until something that
went into it changes: the file, any header of ours, its flags, the rules or the tools.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from pathlib import Path

import clang_tidy
import ziglang

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]
from tests.support.native import cache_dir  # noqa: E402  it needs the path

HEADERS = ("x86-linux-gnu", "generic-glibc", "x86-linux-any", "any-linux-any")
DEVICE_CODE = {ROOT / "demo" / "kernels.c"}
"""for a real GPU's instruction set: other built-in functions, other rules"""
KEPT = ("-I", "-D", "-std", "-W", "-f", "-O")


def flags_of(command: str) -> list[str]:
    """What matters for reading a file, out of the command that compiles it."""
    return [word for word in shlex.split(command) if word.startswith(KEPT) and word != "-Werror"]


def base_flags() -> list[str]:
    """Our target, and the headers of its C library."""
    libc = Path(ziglang.__file__).parent / "lib" / "libc" / "include"
    flags = ["--target=x86_64-linux-gnu", "-nostdlibinc", "-D__GLIBC_MINOR__=17"]
    for name in HEADERS:
        flags += ["-isystem", str(libc / name)]
    return flags


def commands(build: Path) -> dict[Path, list[str]]:
    """Each C file of ours with its flags; a file that belongs to several targets counts once."""
    entries = json.loads((build / "compile_commands.json").read_text())
    found = {Path(e["file"]).resolve(): flags_of(e["command"]) for e in entries}
    plain = ["-std=gnu11", "-D_GNU_SOURCE", f"-I{ROOT / 'native'}"]
    for folder in ("demo", "tests", "bench"):
        for file in sorted((ROOT / folder).rglob("*.c")):
            if file not in DEVICE_CODE:
                found.setdefault(file, plain)
    return found


@cache
def common() -> bytes:
    """A digest of what goes into every file: our headers, the rules and the tools."""
    digest = hashlib.sha256()
    for name in ("clang-tidy", "ziglang"):
        digest.update(f"{name} {version(name)}\n".encode())
    headers = [
        header
        for folder in ("native", "demo", "tests", "bench")
        for pattern in ("*.h", "*.def", ".clang-tidy")
        for header in (ROOT / folder).rglob(pattern)
    ]
    for file in [ROOT / ".clang-tidy", *sorted(headers)]:
        digest.update(f"{file.relative_to(ROOT)}\n".encode())
        digest.update(file.read_bytes())
    return digest.digest()


def mark(file: Path, flags: list[str]) -> Path:
    """This file is there if clang-tidy was content with exactly this."""
    digest = hashlib.sha256(common())
    digest.update(repr([flag.replace(str(ROOT), ".") for flag in flags]).encode())
    digest.update(f"{file.relative_to(ROOT)}\n".encode())
    digest.update(file.read_bytes())
    return cache_dir() / "tidy" / digest.hexdigest()[:32]


def tidy(file: Path, flags: list[str]) -> str:
    """What clang-tidy says about one file; empty if it is content."""
    content = mark(file, flags)
    if content.exists():
        return ""
    program = Path(clang_tidy.__file__).parent / "data" / "bin" / "clang-tidy"
    done = subprocess.run(
        [program, "--quiet", str(file), "--", *flags, *base_flags()],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    if done.returncode:
        return done.stdout + done.stderr
    content.parent.mkdir(parents=True, exist_ok=True)
    content.touch()
    return ""


def main() -> int:
    known = commands(Path(sys.argv[1]))
    chosen = {Path(name).resolve() for name in sys.argv[2:]}
    todo = {file: flags for file, flags in known.items() if not chosen or file in chosen}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(filter(None, pool.map(tidy, todo.keys(), todo.values())))
    print("\n".join(said), end="")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
