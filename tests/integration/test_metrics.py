"""`/metrics` of a real agent: what Prometheus would see, and who may not."""

from __future__ import annotations

import http.client
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from moiety.model import errors
from moiety.testing.node import Node, finish

MIB = 1 << 20
MakeNode = Callable[[str], Node]


def scrape(address: str, path: str = "/metrics", method: str = "GET") -> tuple[int, str]:
    port = 0 if address.startswith("/") else int(address.rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    if not port:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(address)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def values(address: str) -> dict[str, float]:
    """The one value of each name that has but one."""
    status, body = scrape(address)
    assert status == 200
    families = text_string_to_metric_families(body)
    samples = [sample for family in families for sample in family.samples]
    names = [sample.name for sample in samples]
    return {s.name: s.value for s in samples if names.count(s.name) == 1}


def test_a_program_is_seen_while_it_runs(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node("A100-80:memory=96MiB,link=8GB/s,residue=2MiB")
    node.start_agent("--metrics", "127.0.0.1:0")
    address = node.json("status")["metrics"]
    before = values(address)
    assert before["moiety_agent_info"] == 1
    assert before["DCGM_FI_DEV_FB_USED"] + before["DCGM_FI_DEV_FB_FREE"] == 96
    assert "moiety_process_resident_bytes" not in before
    (card,) = node.json("status")["gpus"]
    assert before["DCGM_FI_DEV_GPU_TEMP"] == card["sensors"]["temperature_c"] == 32
    assert before["DCGM_FI_DEV_POWER_USAGE"] == card["sensors"]["power_w"]
    assert "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" not in before, "this card does not have the value"
    assert card["sensors"]["ecc_uncorrected"] is None
    assert card["history"]["temperature_c"][-1] == 32
    running = node.run([programs / "worker", kernels, 40 * MIB, 1000000, 0, 0, 1])

    def is_seen() -> bool:
        return values(address).get("moiety_process_allocated_bytes", 0) >= 40 * MIB

    node.until(is_seen, "its memory is seen")
    seen = values(address)
    assert seen["moiety_process_handoffs_total"] >= 1
    assert seen["moiety_gpu_resident_bytes"] >= seen["moiety_process_resident_bytes"]
    assert scrape(address, "/")[0] == 404
    assert scrape(address, method="POST")[0] == 405
    running.send_signal(signal.SIGUSR1)
    assert finish(running)[0] == 0
    node.until(lambda: "moiety_process_handoffs_total" not in values(address), "it is gone")


def test_a_socket_instead_of_a_port(make_node: MakeNode) -> None:
    node = make_node("A100-80:memory=96MiB")
    path = node.directory / "metrics.sock"
    node.start_agent("--metrics", str(path))
    assert path.stat().st_mode & 0o077 == 0
    listener = socket.socket(socket.AF_UNIX)
    listener.connect(str(path))
    listener.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    with listener.makefile("rb") as answer:
        head, _, body = answer.read().partition(b"\r\n\r\n")
    listener.close()
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"moiety_agent_info" in body


def test_a_path_where_something_lies_costs_nobody_a_file(make_node: MakeNode) -> None:
    node = make_node("A100-80:memory=96MiB")
    precious = node.directory / "thesis.txt"
    precious.write_text("years of work")
    done = node.cli("agent", "start", "--metrics", str(precious))
    assert done.returncode == errors.MetricsRefused.exit_code
    assert "no socket" in done.stderr
    assert precious.read_text() == "years of work"
    path = node.directory / "metrics.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        done = node.cli("agent", "start", "--metrics", str(path))
        assert done.returncode == errors.MetricsRefused.exit_code
        assert "another process listens" in done.stderr
    node.start_agent("--metrics", str(path))  # nobody serves it any more: it is taken over
    assert scrape(str(path))[0] == 200


def test_an_address_that_cannot_be_had_is_said(make_node: MakeNode) -> None:
    node = make_node("A100-80:memory=96MiB")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = node.cli("agent", "start", "--metrics", str(port))
    assert done.returncode == errors.MetricsRefused.exit_code
    assert f"127.0.0.1:{port}" in done.stderr
    done = node.cli("agent", "start", "--metrics", "0.0.0.0:9402")
    assert done.returncode == errors.BadArgument.exit_code
    assert "can be reached from elsewhere" in done.stderr


def test_nonsense_and_silence_do_not_harm(make_node: MakeNode) -> None:
    node = make_node("A100-80:memory=96MiB")
    node.start_agent("--metrics", "127.0.0.1:0")
    address = node.json("status")["metrics"]
    port = int(address.rpartition(":")[2])
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
    for i, connection in enumerate(idle[:10]):
        connection.sendall(bytes([i]) * 5000)
    for connection in idle:
        connection.close()
    node.until(lambda: _answers(address), "it answers again")


def _answers(address: str) -> bool:
    try:
        return scrape(address)[0] == 200
    except (OSError, http.client.HTTPException):
        return False
