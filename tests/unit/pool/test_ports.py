"""Ports for the processes of a workload to meet at."""

from __future__ import annotations

import socket

import pytest

from moiety.model.errors import BadArgument
from moiety.pool.launch.ports import FIRST, PortBook


def test_a_port_is_given_again_only_after_all_others() -> None:
    book = PortBook(FIRST, FIRST + 40)
    taken = [book.take(3) for _ in range(10)]
    given = [port + at for port in taken for at in range(3)]
    assert len(given) == len(set(given))
    assert all(FIRST <= port < FIRST + 40 for port in given)


def test_a_port_that_is_in_use_is_left_out() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BadArgument, match="no 2 ports in a row"):
            PortBook(port - 1, port + 1).take(2)
        assert PortBook(port - 1, port + 2).take(1) != port


def test_without_bounds_they_are_none_that_the_kernel_gives_out() -> None:
    book = PortBook()
    assert FIRST <= book.take(2) < book.end
