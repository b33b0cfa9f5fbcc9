"""Whether programs in an image can be shared: read from its files, without starting anything."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moiety.cli.safe_paths import is_file_beneath, open_beneath
from moiety.devices.elf import Elf, elf_of
from moiety.model import errors

OLDEST_GLIBC: Final = (2, 17)
GLIBC_LOADERS: Final = ("lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1")
MUSL_LOADERS: Final = ("lib/ld-musl-x86_64.so.1", "lib/ld-musl-aarch64.so.1")
LIBC_DIRS: Final = (
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "usr/lib64",
    "lib",
    "usr/lib",
)
RELEASE: Final = re.compile(rb"GNU C Library [^\0]{0,60}?version (\d+)\.(\d+)")
PRELOAD: Final = "etc/ld.so.preload"
USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SCRIPTS_MAX: Final = 5
LIBC_MOST: Final = 32 << 20
"""The most bytes of a C library that are read; it has 2 MiB, or 20 MiB with debug data."""
PRELOAD_MOST: Final = 4096
LINE_MOST: Final = 256
USE: Final = "an image with glibc 2.17 or newer: Debian, Ubuntu, Fedora, Rocky, NVIDIA's CUDA"


@dataclass(frozen=True, slots=True)
class Image:
    """The files of a container, below `root` on this machine."""

    root: Path

    def content(self, inside: str, most: int) -> bytes:
        """At most `most` bytes of a file; raises OSError, also for a file that may block."""
        with os.fdopen(open_beneath(self.root, inside), "rb") as file:
            return file.read(most)

    def has(self, inside: str) -> bool:
        """Whether the file exists."""
        return is_file_beneath(self.root, inside)

    def glibc(self) -> tuple[int, int] | None:
        """The version of its glibc; None if it has none."""
        for folder in LIBC_DIRS:
            try:
                found = RELEASE.search(self.content(f"{folder}/libc.so.6", LIBC_MOST))
            except OSError:
                continue
            if found:
                return int(found[1]), int(found[2])
        return None

    @property
    def is_musl(self) -> bool:
        """Whether musl is its C library, as in Alpine."""
        return any(map(self.has, MUSL_LOADERS)) and not any(map(self.has, GLIBC_LOADERS))

    def find(self, program: str, path: str = USUAL_PATH, cwd: str = "/") -> str | None:
        """The path of a program in the image, as the image would find it; None: not found."""
        if "/" in program:
            where = program if program.startswith("/") else f"{cwd}/{program}"
            return where if self.has(where) else None
        for folder in path.split(":"):
            if self.has(f"{folder or cwd}/{program}"):
                return f"{folder or cwd}/{program}"
        return None


def check(image: Image, program: str | None, path: str = USUAL_PATH, cwd: str = "/") -> list[str]:
    """Notes about an image whose programs can be shared.

    Raises ImageUnfit if no program can be shared, MuslProgram or WrongArchitecture if `program`
    cannot. The container runtime reports a program that does not exist or cannot be read.
    """
    if image.is_musl:
        raise errors.ImageUnfit(
            str(image.root),
            "its C library is musl, as in Alpine; NVIDIA's driver, and so moiety, needs glibc",
            USE,
        )
    notes = []
    version = image.glibc()
    if version is None:
        notes.append("no C library is found: only statically linked programs, which are not shared")
    elif version < OLDEST_GLIBC:
        raise errors.ImageUnfit(
            str(image.root), f"its glibc is {version[0]}.{version[1]}, moiety needs 2.17", USE
        )
    else:
        notes.append(f"glibc {version[0]}.{version[1]}")
    if program is not None:
        notes += _look_at(image, program, path, cwd)
    return notes + _own_preload(image)


def _look_at(image: Image, program: str, path: str, cwd: str) -> list[str]:
    current = image.find(program, path, cwd)
    for _ in range(SCRIPTS_MAX):
        if current is None:
            return [f"{program} is not in it"]
        elf = _read(image, current)
        if elf is not None:
            return _judge(program, current, elf)
        words = _first_line(image, current)
        if not words:
            return [f"{current} is neither a program nor a script"]
        current = image.find(words[0])
        if words[0].endswith("/env") and len(words) > 1:
            named = next((w for w in words[1:] if not w.startswith("-") and "=" not in w), "sh")
            current = image.find(named, path)
    return [f"{program} is a script of a script of a script"]


def _judge(program: str, file: str, elf: Elf) -> list[str]:
    own = os.uname().machine
    shown = program if file == program else f"{program} ({file})"
    if elf.bits != 64 or elf.machine != own:
        raise errors.WrongArchitecture(shown, f"{elf.bits}-bit {elf.machine}", own)
    if elf.interpreter is None:
        return [f"{shown} is statically linked: it is not shared, what it starts can be"]
    if "ld-musl" in elf.interpreter:
        raise errors.MuslProgram(shown)
    return [f"{shown} can be shared"]


def _read(image: Image, inside: str) -> Elf | None:
    try:
        with os.fdopen(open_beneath(image.root, inside), "rb") as file:
            return elf_of(file.fileno())
    except OSError:
        return None


def _first_line(image: Image, inside: str) -> Sequence[str]:
    try:
        line = image.content(inside, LINE_MOST).partition(b"\n")[0]
    except OSError:
        return []
    return os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []


def _own_preload(image: Image) -> list[str]:
    try:
        named = image.content(PRELOAD, PRELOAD_MOST).decode(errors="replace").split()
    except OSError:
        return []
    if not named:
        return []
    listed = " ".join(named)
    return [f"its own /{PRELOAD} ({listed}) is hidden: name these in LD_PRELOAD instead"]
