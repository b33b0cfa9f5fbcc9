"""How long the webhook takes for a pod while 50 ask at once.

The webhook is a process of its own and speaks TLS; the API server is a stand-in (it keeps objects,
and answers at once), so the figure is what the webhook adds, and not what etcd does.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from bench.figure import Figure
from moiety.kube.client import NAMESPACES, SLICES
from moiety.kube.dialects.request import WebhookConfig
from moiety.kube.model import names
from moiety.kube.webhook import registration
from moiety.testing.apiserver import ApiServer

IN_FLIGHT: Final = 50
PODS: Final = 2000
WARM: Final = 200
KINDS: Final = 20
"""So many different shares, each with a template of its own in each namespace."""
HOST: Final = "moiety-webhook.moiety-system.svc"
DEVICE: Final = {
    "attributes": {"productName": {"string": "NVIDIA A100"}},
    "capacity": {"memory": {"value": "80Gi"}},
}


def measure() -> list[Figure]:
    """One figure."""
    took_s, pods_per_s = asyncio.run(_measured())
    p99_ms = statistics.quantiles(took_s, n=100)[98] * 1e3
    median_ms = statistics.median(took_s) * 1e3
    note = (
        f"median {median_ms:.1f} ms; {pods_per_s:.0f} pods/s; who asks and the stand-in API server "
        "share the machine's cores with it"
    )
    return [
        Figure(
            name="kube_webhook_p99_ms",
            value=p99_ms,
            unit="ms",
            bar=100.0,
            better="lower",
            device="simgpu",
            samples=len(took_s),
            note=note,
        )
    ]


async def _measured() -> tuple[list[float], float]:
    async with ApiServer() as server, _webhook(server) as (port, trusted):
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT, ssl=trusted)
        async with aiohttp.ClientSession(connector=connector) as session:
            await _asked(session, port, WARM)
            began_s = time.perf_counter()
            took_s = await _asked(session, port, PODS)
            return took_s, PODS / (time.perf_counter() - began_s)


async def _asked(session: aiohttp.ClientSession, port: int, count: int) -> list[float]:
    left = iter(range(count))
    took_s: list[float] = []

    async def one_after_another() -> None:
        for number in left:
            body = json.dumps({"request": _question(number)}).encode()
            began_s = time.perf_counter()
            async with session.post(
                f"https://127.0.0.1:{port}/mutate", data=body, server_hostname=HOST
            ) as response:
                answer = await response.json()
            took_s.append(time.perf_counter() - began_s)
            assert answer["response"]["allowed"], answer

    await asyncio.gather(*(one_after_another() for _ in range(IN_FLIGHT)))
    return took_s


def _question(number: int) -> dict[str, Any]:
    notes = {"moiety.dev/gpu": f"{(number % KINDS + 1) / 100:g}", "moiety.dev/memory": "1Gi"}
    container = {
        "name": "main",
        "image": "train",
        "env": [{"name": f"V{i}", "value": "x" * 40} for i in range(40)],
        "resources": {"limits": {"cpu": "2"}},
    }
    pod = {"metadata": {"name": f"p{number}", "annotations": notes}}
    return {
        "uid": f"u{number}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": f"team-{number % 5}",
        "object": pod | {"spec": {"containers": [container]}},
    }


@contextlib.asynccontextmanager
async def _webhook(server: ApiServer) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    server.put(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
    server.put(registration.MUTATING, registration.mutating(WebhookConfig()))
    server.put(registration.VALIDATING, registration.validating())
    spec = {"driver": "gpu.moiety.dev", "devices": [DEVICE]}
    server.put(SLICES, {"metadata": {"name": "a"}, "spec": spec})
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "config"
        config.write_text(yaml.safe_dump(_kubeconfig(server.access.server)))
        log = Path(scratch) / "log"
        command = [sys.executable, "-m", "moiety", "kube", "webhook", "--host", "127.0.0.1"]
        command += ["--port", "0", "--kubeconfig", str(config), "--log-format", "json"]
        with log.open("w") as out:
            process = subprocess.Popen(command, stderr=out, env=dict(os.environ))
        try:
            yield await _until_registered(server, process, log)
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait)


async def _until_registered(
    server: ApiServer, process: subprocess.Popen[bytes], log: Path
) -> tuple[int, ssl.SSLContext]:
    while True:
        if process.poll() is not None:
            raise RuntimeError(log.read_text())
        found = server.get(registration.VALIDATING, registration.NAME)
        bundle = found["webhooks"][0]["clientConfig"].get("caBundle") if found else None
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
        ports = [line["port"] for line in lines if "port" in line]
        if bundle and ports:
            pem = base64.b64decode(bundle).decode()
            return ports[0], ssl.create_default_context(cadata=pem)
        await asyncio.sleep(0.05)


def _kubeconfig(address: str) -> dict[str, Any]:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {}}],
    }
