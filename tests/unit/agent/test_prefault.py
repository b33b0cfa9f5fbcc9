"""Memory that is made ahead: all its pages are there and zero, and nobody can cut it short."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator

import pytest

from moiety.agent.arena import prefault

SIZE = 8 << 20


@pytest.fixture
def made() -> Iterator[int]:
    fd = prefault.make(SIZE, 0, lambda: False)
    yield fd
    os.close(fd)


def test_every_page_is_there_before_anybody_looks(made: int) -> None:
    assert os.fstat(made).st_blocks * 512 == SIZE


def test_nobody_can_change_its_size(made: int) -> None:
    for size in (0, 2 * SIZE):
        with pytest.raises(PermissionError):
            os.ftruncate(made, size)


def test_it_ends_early_and_leaves_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(InterruptedError):
        prefault.make(SIZE, None, lambda: True)
    assert len(os.listdir("/proc/self/fd")) == before


def test_without_enough_memory_it_is_an_error_and_no_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*arguments: int) -> None:
        del arguments
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(prefault, "MADV_POPULATE_WRITE", 9999)  # as on a kernel before 5.14
    os.close(prefault.make(SIZE, None, lambda: False))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="Cannot allocate"):
        prefault.make(SIZE, None, lambda: False)


def test_whoever_keeps_what_was_given_back_has_none_of_its_pages() -> None:
    fd = prefault.make(8 << 20, None, lambda: False)
    with mmap.mmap(fd, 8 << 20) as kept:
        kept[:4] = b"mine"
        before = os.fstat(fd).st_blocks
        again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        prefault.free(fd)
        assert before * 512 >= 8 << 20
        assert os.fstat(again).st_blocks == 0
        assert kept[:4] == b"\0\0\0\0"
    os.close(again)
