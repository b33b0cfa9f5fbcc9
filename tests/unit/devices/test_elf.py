"""Programs and libraries, judged by their first bytes."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.devices.elf import exported, read_elf
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
