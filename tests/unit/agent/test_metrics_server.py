"""Which requests the port of the metrics answers: a page in a browser gets nothing from it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from moiety.agent.control.metrics_server import CONNECTIONS_MAX, CONNECTIONS_PER_S, MetricsServer
from moiety.agent.control.options import parse
from moiety.config.values import Address, parse_hosts


async def answer() -> bytes:
    return b"moiety_agent_info 1\n"


def ask(*headers: str, address: Address | None = None, hosts: tuple[str, ...] = ()) -> bytes:
    """The first line of the answer to a request with these headers."""

    async def asked() -> bytes:
        server = MetricsServer(address or Address("127.0.0.1", 0), answer, None, hosts)
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


def test_a_name_that_was_configured_is_answered_and_no_other() -> None:
    hosts = parse(["--metrics-hosts", "Node1.lab.test., metrics"]).metrics_hosts
    assert hosts is not None
    assert hosts == ("node1.lab.test", "metrics")
    assert ask("Host: NODE1.lab.test:9402", hosts=hosts) == b"HTTP/1.1 200 OK"
    assert ask("Host: metrics", hosts=hosts) == b"HTTP/1.1 200 OK"
    assert ask("Host: node2.lab.test", hosts=hosts).startswith(b"HTTP/1.1 421")
    assert ask("Host: lab.test", hosts=hosts).startswith(b"HTTP/1.1 421")


@pytest.mark.parametrize("text", ["", "a,,b", "node1:9402", "*.lab.test", "http://node1"])
def test_what_is_no_host_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no list of host names"):
        parse_hosts(text)


@contextlib.asynccontextmanager
async def serving(texts: list[int]) -> AsyncIterator[MetricsServer]:
    """A port; `texts` counts how often the text was made."""

    async def made() -> bytes:
        texts.append(1)
        return b"moiety_agent_info 1\n"

    server = MetricsServer(Address("127.0.0.1", 0), made, None)
    await server.open()
    try:
        yield server
    finally:
        server.close()


async def get(server: MetricsServer) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    found = await reader.read()
    writer.close()
    return found


def test_connections_that_say_nothing_make_no_other_wait() -> None:
    async def asked() -> None:
        async with serving([]) as server:
            port = server.address.port
            idle = [
                await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX * 2)
            ]
            async with asyncio.timeout(30):
                assert (await get(server)).endswith(b"moiety_agent_info 1\n")
                ended = [await reader.read() for reader, _ in idle[:CONNECTIONS_MAX]]
            assert set(ended) == {b""}, "the oldest had to go"
            assert len(server._open) <= CONNECTIONS_MAX
            for _, writer in idle:
                writer.close()

    asyncio.run(asked())


def test_requests_without_pause_are_answered_at_a_rate() -> None:
    async def asked() -> None:
        texts: list[int] = []
        async with serving(texts) as server:
            loop = asyncio.get_running_loop()
            began_s, number = loop.time(), int(CONNECTIONS_PER_S)
            for _ in range(number):
                assert (await get(server)).endswith(b"moiety_agent_info 1\n")
            took_s = loop.time() - began_s
            assert took_s > 0.7, "a burst of 20, and then 100 a second"
            assert len(texts) <= took_s / 0.25 + 2

    asyncio.run(asked())
