"""The page that the gate reads."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator

import pytest

from moiety.agent.core import lease_page
from moiety.agent.core.lease_page import LeasePage
from moiety.wire.layout import LEASE_BYTES


@pytest.fixture
def page() -> Iterator[LeasePage]:
    made = LeasePage()
    yield made
    made.dispose()


def as_the_process_sees_it(page: LeasePage) -> int:
    with mmap.mmap(page.fd, LEASE_BYTES, prot=mmap.PROT_READ) as view:
        return int.from_bytes(view[:4], "little")


def test_a_new_page_is_closed(page: LeasePage) -> None:
    assert as_the_process_sees_it(page) == 0


def test_opening_and_closing_is_seen_at_once(page: LeasePage) -> None:
    with mmap.mmap(page.fd, LEASE_BYTES, prot=mmap.PROT_READ) as view:
        page.open(7)
        assert view[:4] == (7 << 1 | 1).to_bytes(4, "little")
        page.close(7)
        assert view[:4] == (7 << 1).to_bytes(4, "little")
    assert page.epoch == 7


def test_a_holders_page_is_open_from_the_start() -> None:
    page = LeasePage(3, is_open=True)
    assert as_the_process_sees_it(page) == 3 << 1 | 1
    page.dispose()


def test_nobody_else_can_write_resize_or_unseal_it(page: LeasePage) -> None:
    with pytest.raises(PermissionError):
        mmap.mmap(page.fd, LEASE_BYTES)
    with pytest.raises(PermissionError):
        os.pwrite(page.fd, b"\1", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(page.fd, 2 * LEASE_BYTES)
    with pytest.raises(PermissionError):
        fcntl.fcntl(page.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def test_an_old_kernels_process_gets_a_read_only_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_page, "F_SEAL_FUTURE_WRITE", 0x8000)  # unknown to every kernel
    page = LeasePage(1, is_open=True)
    with pytest.raises(PermissionError):
        mmap.mmap(page.fd, LEASE_BYTES)
    assert as_the_process_sees_it(page) == 3
    page.open(2)
    assert as_the_process_sees_it(page) == 5
    page.dispose()
