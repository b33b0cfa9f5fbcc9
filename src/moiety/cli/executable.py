"""Whether a program can be shared at all: everything that is checked before it starts."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moiety.devices.elf import Elf, read_elf
from moiety.model import errors

SCRIPTS_MAX: Final = 5
"""The most interpreters of interpreters that the kernel follows."""
CAPABILITY: Final = "security.capability"


@dataclass(frozen=True, slots=True)
class Program:
    """A program that can be started shared."""

    name: str
    path: str
    interpreter: str | None = None
    """The interpreter, if the program is a script."""


def find(name: str) -> str:
    """The file that a shell would start; raises ProgramNotFound or ProgramNotExecutable."""
    if not name:
        raise errors.ProgramNotFound("a program without a name")
    if "/" in name:
        path = name
        if not os.path.exists(path):
            raise errors.ProgramNotFound(name)
        if not os.path.isfile(path):
            what = "a directory" if os.path.isdir(path) else "neither a program nor a script"
            raise errors.ProgramNotExecutable(name, f"it is {what}", "the file that is meant")
        if not os.access(path, os.X_OK):
            raise errors.ProgramNotExecutable(name, "it may not be executed")
        return path
    files = _on_path(name)
    if found := next((path for path in files if os.access(path, os.X_OK)), None):
        return found
    for file in files:
        raise errors.ProgramNotExecutable(file, "it may not be executed")
    raise errors.ProgramNotFound(name)


def _on_path(name: str) -> list[str]:
    """The files of this name in the folders of PATH. `shutil` would load every compression."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = [os.path.join(folder, name) for folder in folders]
    return [path for path in paths if os.path.isfile(path)]


def check(name: str) -> Program:
    """Find a program and make sure that the shim would be loaded into it.

    Raises ProgramNotFound, ProgramNotExecutable, WrongArchitecture, SecureProgram,
    StaticProgram or MuslProgram.
    """
    path = find(name)
    current = path
    for _ in range(SCRIPTS_MAX):
        refuse_secure(name, current)
        elf = _read(name, current)
        if elf is not None:
            refuse_unfit(name, current, elf)
            break
        following = script_interpreter(current)
        if following is None:
            break  # no ELF, no script: the kernel reports the error
        if not os.path.isfile(following):
            raise errors.ProgramNotFound(f"{following} (the interpreter of {name})")
        current = following
    return Program(name, path, None if current == path else current)


def refuse_secure(name: str, path: str) -> None:
    """Raise SecureProgram if the loader would ignore LD_PRELOAD for it."""
    found = os.stat(path)
    if found.st_mode & stat.S_ISUID and found.st_uid != os.geteuid():
        raise errors.SecureProgram(name, "is setuid")
    group = stat.S_ISGID | stat.S_IXGRP
    if found.st_mode & group == group and found.st_gid != os.getegid():
        raise errors.SecureProgram(name, "is setgid")
    if os.geteuid() != 0:
        try:
            os.getxattr(path, CAPABILITY)
        except OSError:
            return
        raise errors.SecureProgram(name, "has file capabilities")


def refuse_unfit(name: str, path: str, elf: Elf) -> None:
    """Raise unless the file is a dynamically linked program for this machine and for glibc."""
    own = os.uname().machine
    if elf.bits != 64 or elf.machine != own:
        built_for = f"{elf.bits}-bit {elf.machine}"
        raise errors.WrongArchitecture(_both(name, path), built_for, own)
    if elf.interpreter is None:
        raise errors.StaticProgram(_both(name, path))
    if "ld-musl" in elf.interpreter:
        raise errors.MuslProgram(_both(name, path))


def script_interpreter(path: str) -> str | None:
    """The interpreter of a script: the program after `#!`, or the program that `env` starts."""
    try:
        with open(path, "rb") as file:
            line = file.readline(256)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).split()
    if not words:
        return None
    if Path(words[0]).name == "env":
        for word in words[1:]:
            if not word.startswith("-") and "=" not in word:
                return next((p for p in _on_path(word) if os.access(p, os.X_OK)), words[0])
    return words[0]


def _read(name: str, path: str) -> Elf | None:
    try:
        return read_elf(path)
    except PermissionError:
        return Elf(64, os.uname().machine, "unreadable")  # executable, but not readable
    except OSError:
        raise errors.ProgramNotExecutable(name, "it cannot be read") from None


def _both(name: str, path: str) -> str:
    return name if Path(path).name == Path(name).name else f"{name} ({path})"
