"""Scales that do not weigh themselves, nor what nobody has any more."""

from __future__ import annotations

import asyncio
import ctypes

import pytest

from moiety.testing.waiting import Changes
from tests.support import memory_probe

BLOCKS = 3
SIZE = 600
WITH_WORDS_OF_MALLOCS = 608
TRIES = 20


def _errors(libc: ctypes.CDLL) -> tuple[int, int]:
    """How wrong the kept and the used bytes are, after some blocks were given back."""
    blocks = [libc.malloc(SIZE) for _ in range(BLOCKS)]
    used, cached = memory_probe._malloc_bytes(), memory_probe._cached_bytes()
    for block in blocks:
        libc.free(block)
    freed = BLOCKS * WITH_WORDS_OF_MALLOCS
    return (
        abs(cached + freed - memory_probe._cached_bytes()),
        abs(used - freed - memory_probe._malloc_bytes()),
    )


def test_what_malloc_keeps_for_later_is_not_in_use() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    if not memory_probe._cached_bytes():
        pytest.skip("this C library does not tell what it keeps where glibc 2.30 to 2.41 do")
    # Other threads take and give some words in some tries; a scale that is wrong is so in all.
    tries = [_errors(libc) for _ in range(TRIES)]
    assert min(max(each) for each in tries) < WITH_WORDS_OF_MALLOCS // 4, tries


def test_timers_that_were_called_off_are_forgotten_and_the_others_are_not() -> None:
    rang: list[float] = []
    changes = Changes()

    def ring(delay_s: float) -> None:
        rang.append(delay_s)
        changes.tell()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for timer in [loop.call_later(delay_s, ring, delay_s) for delay_s in (300, 0.03)]:
            timer.cancel()
        rings = [loop.call_later(delay_s, ring, delay_s) for delay_s in (0.02, 0.01)]
        before = memory_probe.objects()["asyncio.events.TimerHandle"]
        memory_probe._forget_cancelled(loop)
        del timer
        assert memory_probe.objects()["asyncio.events.TimerHandle"] == before - 2
        assert len(rings) == 2
        await changes.until(lambda: len(rang) == len(rings))

    asyncio.run(run())
    assert rang == [0.01, 0.02]
