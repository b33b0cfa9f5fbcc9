"""Programs and libraries, judged by their first bytes."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.devices.elf import exported, needed, read_elf
from moiety.devices.loader import CACHE_MAGIC, _in_cache, find_library


def test_this_python_is_a_program_for_this_machine() -> None:
    found = read_elf(sys.executable)
    assert found is not None
    assert found.bits == 64
    assert found.interpreter is None or "ld-" in found.interpreter


def test_a_script_is_no_elf(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert read_elf(tmp_path / "script") is None


def test_the_c_library_exports_what_it_should() -> None:
    libc = find_library("libc.so.6", {})
    assert libc is not None
    names = exported(libc)
    assert {"malloc", "dlsym"} <= names | {"dlsym"}
    assert "no_such_function" not in names


@given(st.binary(max_size=400))
def test_damaged_files_are_survived(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    path = tmp_path_factory.mktemp("elf") / "file"
    path.write_bytes(b"\x7fELF\x02\x01\x01" + tail)
    found = read_elf(path)
    assert found is None or found.machine
    assert exported(path) is not None
    assert needed(path) is not None


LYING = st.sampled_from(
    [0, 1, 23, 24, 64, 100, 1 << 16, 1 << 31, (1 << 63) - 1, 1 << 63, 2**64 - 1]
)


@given(st.data())
def test_headers_that_lie_cost_no_more_than_the_file_has(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    def some(most: int = 2**64 - 1) -> int:
        return min(data.draw(LYING), most)

    short = 2**16 - 1
    kind, link = data.draw(st.sampled_from([6, 11, 3])), data.draw(st.integers(0, 2))
    section = struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, some(), some(), link, 0, 0, 0)
    strings = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, some(), some(), 0, 0, 0, 0)
    header = struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, some(), data.draw(st.sampled_from([64, some()])), 0, 64,
        some(short), some(short), data.draw(st.sampled_from([64, some(short)])), some(short), 0,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("elf") / "file"
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + header + section + strings + b"name\0" * 9)
    for read in (read_elf, exported, needed):
        read(path)


def large(path: Path, kind: int, rows: bytes, names: bytes) -> None:
    """A file whose section of this kind is as long as a file can be, holes behind its content."""
    header = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 2, 0)
    table = struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, 1 << 20, 1 << 40, 1, 0, 0, 0)
    table += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 1 << 33, 1 << 40, 0, 0, 0, 0)
    with path.open("wb") as file:
        file.write(b"\x7fELF\x02\x01\x01" + bytes(9) + header + table)
        file.seek(1 << 20)
        file.write(rows)
        file.seek(1 << 33)
        file.write(names)
        file.truncate(1 << 41)


def test_no_more_is_read_than_a_library_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    symbols = b"".join(struct.pack("<IBBHQQ", at, 0, 0, 1, 0, 0) for at in (1, 5, 2000))
    large(tmp_path / "symbols", 11, symbols, b"\0one\0two\0" + b"x" * 5000)
    linked = struct.pack("<qQqQqQ", 1, 1, 1, 5, 1, 2**64 - 1)
    large(tmp_path / "linked", 6, linked, b"\0one\0two\0")
    read = []
    real = os.pread

    def counted(fd: int, size: int, at: int) -> bytes:
        read.append(size)
        return real(fd, size, at)

    monkeypatch.setattr(os, "pread", counted)
    assert exported(tmp_path / "symbols") == {"one", "two"}
    assert needed(tmp_path / "linked") == ["one", "two"]
    assert max(read) <= 16 << 20


def cache(*entries: tuple[bytes, bytes, int]) -> bytes:
    """An ld.so cache with these (name, path, flags)."""
    strings = b"".join(name + b"\0" + path + b"\0" for name, path, _ in entries)
    at = 48 + 24 * len(entries)
    table = b""
    for name, path, flags in entries:
        table += struct.pack("<iIIIQ", flags, at, at + len(name) + 1, 0, 0)
        at += len(name) + len(path) + 2
    return (
        struct.pack("<20sII5I", CACHE_MAGIC, len(entries), len(strings), *[0] * 5) + table + strings
    )


def test_the_loaders_cache_is_understood() -> None:
    found = cache(
        (b"libcuda.so.1", b"/lib32/libcuda.so.1", 0x0003),
        (b"libcuda.so.1", b"/lib64/libcuda.so.1", 0x0303),
        (b"libcuda.so.10", b"/lib64/libcuda.so.10", 0x0303),
    )
    assert _in_cache(found, b"libcuda.so.1") == [Path("/lib64/libcuda.so.1")]
    assert _in_cache(b"old" * 5 + found, b"libcuda.so.1") == [Path("/lib64/libcuda.so.1")]
    assert _in_cache(b"", b"libcuda.so.1") == []


@given(st.binary(max_size=200))
def test_a_damaged_cache_is_survived(tail: bytes) -> None:
    assert isinstance(_in_cache(CACHE_MAGIC + tail, b"libc.so.6"), list)


def test_the_library_path_comes_first(tmp_path: Path) -> None:
    (tmp_path / "libc.so.6").touch()
    assert find_library("libc.so.6", {"LD_LIBRARY_PATH": f":{tmp_path}"}) == tmp_path / "libc.so.6"
    assert find_library("libno-such-thing.so.7", {}) is None
