"""The table of the driver's entry points, and what a program finds when it asks for one.

The table is read from a checkout's `native` folder. What a program finds is asked in a process of
its own, because that depends on what is preloaded: run as a module, this reads questions and
prints answers.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

SUFFIXES: Final = {"": "", "_DS": "_ptds", "_SZ": "_ptsz"}
PER_THREAD: Final = 2
"""The flag of cuGetProcAddress that asks for the flavour of a thread's own default stream."""


@dataclass(frozen=True, order=True)
class Form:
    """What is returned for a name that is asked for at a version or later."""

    name: str
    since: int
    flavour: str = ""
    """Empty, _ptds or _ptsz."""


class Entry(NamedTuple):
    """The function of a form, and what the shim does with it."""

    symbol: str
    kind: str


class Question(NamedTuple):
    """What a program asks cuGetProcAddress."""

    name: str
    version: int
    flags: int = 0


class Answer(NamedTuple):
    """What it gets: a library's file name and the exported symbol there; empty for nothing."""

    library: str
    symbol: str


def table(native: Path) -> dict[Form, Entry]:
    """Every form; AssertionError if one stands there twice."""
    base = native / "shim" / "base"
    text = "".join((base / f"entrypoints{part}.h").read_text() for part in ("", "_passed"))
    kinds = dict(re.findall(r"^#define CLASS_(\w+) (\w+)$", text, re.MULTILINE))
    rows = [
        (kinds.get(symbol, ""), shape, name, symbol, since, since_own)
        for shape, name, symbol, since, since_own in re.findall(
            r"^ENTRY(_DS|_SZ)?\((\w+), (\w+), (\d+)(?:, (\d+))?\)$",
            (native / "cuda" / "entrypoints.def").read_text(),
            re.MULTILINE,
        )
    ]
    rows += [
        (kind, shape, name, symbol, since, since_own)
        for shape, kind, name, symbol, since, since_own in re.findall(
            r"^PLAIN(_DS|_SZ)?\((\w+), (\w+), (\w+), (\d+)(?:, (\d+))?\)$",
            (native / "cuda" / "plain_calls.def").read_text(),
            re.MULTILINE,
        )
    ]
    found: dict[Form, Entry] = {}
    for kind, shape, name, symbol, since, since_own in rows:
        forms = {Form(name, int(since)): Entry(symbol, kind)}
        if shape:
            suffix = SUFFIXES[shape]
            forms[Form(name, int(since_own), suffix)] = Entry(symbol + suffix, kind)
        assert not forms.keys() & found.keys(), f"{name} {since} twice"
        found |= forms
    return found


def requests(native: Path) -> list[Question]:
    """What NVIDIA's runtimes ask a driver for, as cuda/requests.txt has it."""
    return [
        Question(name, int(version), PER_THREAD if own else 0)
        for line in (native / "cuda" / "requests.txt").read_text().splitlines()
        if not line.startswith("#")
        for name, rest in [line.split(" ", 1)]
        for version, own in re.findall(r"(\d+)(t?)", rest)
    ]


def ask(questions: Sequence[Question], environment: Mapping[str, str]) -> list[Answer]:
    """The answers in a new process with this environment added to our own."""
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(questions),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [Answer(*answer) for answer in json.loads(done.stdout)]


class _Info(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _answer_from_stdin() -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Info))
    answers: list[tuple[str, str]] = []
    if code := driver.cuInit(0):
        raise SystemExit(f"cuInit gave {code}")
    for name, version, flags in json.load(sys.stdin):
        function, status, info = ctypes.c_void_p(), ctypes.c_int(), _Info()
        driver.cuGetProcAddress_v2(
            name.encode(),
            ctypes.byref(function),
            version,
            ctypes.c_uint64(flags),
            ctypes.byref(status),
        )
        if status.value == 0 and function.value and dladdr(function.value, ctypes.byref(info)):
            exact = info.symbol is not None and info.address == function.value
            answers.append((Path(info.file.decode()).name, info.symbol.decode() if exact else ""))
        else:
            answers.append(("", ""))
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    _answer_from_stdin()
