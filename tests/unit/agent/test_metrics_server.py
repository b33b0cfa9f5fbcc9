"""Which requests the port of the metrics answers: a page in a browser gets nothing from it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from moiety.agent.control.metrics_server import MetricsServer
from moiety.config.values import Address


async def answer() -> bytes:
    return b"moiety_agent_info 1\n"


def ask(*headers: str, address: Address | None = None) -> bytes:
    """The first line of the answer to a request with these headers."""

    async def asked() -> bytes:
        server = MetricsServer(address or Address("127.0.0.1", 0), answer, None)
        await server.open()
        try:
            if server.address.path:
                reader, writer = await asyncio.open_unix_connection(server.address.path)
            else:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
            lines = ["GET /metrics HTTP/1.1", *headers, "", ""]
            writer.write("\r\n".join(lines).encode())
            head = (await reader.read()).split(b"\r\n")[0]
            writer.close()
            return head
        finally:
            server.close()

    return asyncio.run(asked())


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:9402",
        "localhost",
        "LocalHost:9402",
        "[::1]:9402",
        "[::1]",
        "192.0.2.1:9403",
    ],
)
def test_an_address_is_answered(host: str) -> None:
    assert ask("Accept: text/plain", f"host: {host}") == b"HTTP/1.1 200 OK"


def test_the_name_of_this_machine_and_no_name_are_answered() -> None:
    assert ask(f"Host: {socket.gethostname()}:9402") == b"HTTP/1.1 200 OK"
    assert ask() == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    "headers",
    [
        ["Host: rebound.example"],
        ["Host: rebound.example:9402"],
        ["Host: 127.0.0.1.rebound.example"],
        ["Host: localhost.rebound.example:9402"],
        ["Host:"],
        ["Host: localhost", "Host: rebound.example"],
        ["Host: \u00e9"],
    ],
)
def test_another_name_is_not(headers: list[str]) -> None:
    assert ask(*headers).startswith(b"HTTP/1.1 421 ")


def test_a_socket_has_no_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("m") / "s"
    assert ask("Host: x", address=Address(path=path)) == b"HTTP/1.1 200 OK"
