"""Finds a library as the dynamic loader would, without loading it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

CACHE: Final = "/etc/ld.so.cache"
CACHE_MAGIC: Final = b"glibc-ld.so.cache1.1"
USUAL_DIRS: Final = (
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib",
    "/usr/lib",
)

_CACHE_HEADER = struct.Struct("<20sII5I")
_CACHE_ENTRY = struct.Struct("<iIIIQ")
_64_BIT: Final = {0x0303, 0x0A03}
"""Flags of entries for x86_64 and aarch64."""


def find_library(name: str, environment: Mapping[str, str] | None = None) -> Path | None:
    """The file that `dlopen(name)` would take: LD_LIBRARY_PATH, the cache, the usual places."""
    environment = os.environ if environment is None else environment
    for path in _candidates(name, environment):
        if path.is_file():
            return path
    return None


def _candidates(name: str, environment: Mapping[str, str]) -> Iterator[Path]:
    for folder in environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":"):
        if folder:
            yield Path(folder) / name
    try:
        cached = _in_cache(Path(CACHE).read_bytes(), name.encode())
    except OSError:
        cached = []
    yield from cached
    for folder in USUAL_DIRS:
        yield Path(folder) / name


def _in_cache(cache: bytes, name: bytes) -> list[Path]:
    """Paths of 64-bit libraries of this name in an ld.so cache; [] for one of unknown form."""
    start = cache.find(CACHE_MAGIC)  # older systems have another table before it
    if start < 0 or len(cache) < start + _CACHE_HEADER.size:
        return []
    found = []
    _, count, *_ = _CACHE_HEADER.unpack_from(cache, start)
    at = start + _CACHE_HEADER.size
    for _ in range(count):
        if at + _CACHE_ENTRY.size > len(cache):
            break
        flags, key, value, _, _ = _CACHE_ENTRY.unpack_from(cache, at)
        at += _CACHE_ENTRY.size
        if cache.startswith(name + b"\0", start + key) and flags & 0xFFFF in _64_BIT:
            end = cache.find(b"\0", start + value)
            found.append(Path(os.fsdecode(cache[start + value : end])))
    return found
