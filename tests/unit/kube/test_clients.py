"""With an authority configured, the webhook answers clients with its certificate, and no others."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from moiety.kube.client import NODES, ApiClient
from moiety.kube.webhook.clients import ReviewClients
from moiety.kube.webhook.server import WebhookOptions, serving
from moiety.model.errors import ClusterRefusal
from moiety.testing.apiserver import ApiServer

LOG = structlog.wrap_logger(structlog.ReturnLogger())


class Authority:
    """An authority for clients, with its file and those of the certificates that it makes."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(self.signed(self.name, self.key, is_ca=True))

    def signed(self, subject: x509.Name, key: Any, *, is_ca: bool) -> bytes:
        now = dt.datetime.now(dt.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM)

    def client(self, name: str) -> Path:
        """A file with a certificate for a client of this name, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file = self.folder / f"{name}.pem"
        file.write_bytes(self.signed(subject, key, is_ca=False) + pem)
        return file


async def status(port: int, path: str, shown: Path | None = None) -> int:
    """The status of an answer to a client that shows this certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if shown:
        context.load_cert_chain(shown)
    request = {"uid": "u", "kind": {"kind": "Pod"}, "operation": "CREATE", "namespace": "team",
               "object": {"metadata": {}, "spec": {"containers": []}}}  # fmt: skip
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            "POST" if path in ("/mutate", "/validate") else "GET",
            f"https://127.0.0.1:{port}{path}",
            json={"request": request},
            ssl=context,
        ) as response,
    ):
        return response.status


def served(
    authority: Path | None,
    names: tuple[str, ...],
    story: Callable[[int], Coroutine[Any, Any, None]],
) -> None:
    async def body() -> None:
        async with ApiServer() as server, ApiClient(server.access, patience_s=1) as client:
            server.put(NODES, {"metadata": {"name": "a"}})
            options = WebhookOptions("127.0.0.1", 0, client_ca=authority, client_names=names)
            async with serving(client, options, LOG) as (_, port):
                await story(port)

    asyncio.run(asyncio.wait_for(body(), 60))


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_review_without_the_certificate_is_refused_and_probes_are_answered(
    tmp_path: Path, path: str
) -> None:
    ours = Authority(tmp_path, "ours")
    api_server = ours.client("kube-apiserver")
    stranger = Authority(tmp_path, "others").client("stranger")

    async def story(port: int) -> None:
        assert await status(port, path) == 403
        assert await status(port, path, api_server) == 200
        assert await status(port, "/readyz") == 200
        with pytest.raises(aiohttp.ClientError):
            await status(port, path, stranger)

    served(ours.file, (), story)


def test_of_an_authority_of_many_only_the_named_clients_are_answered(tmp_path: Path) -> None:
    cluster = Authority(tmp_path, "cluster")
    api_server, kubelet = cluster.client("kube-apiserver"), cluster.client("kubelet")

    async def story(port: int) -> None:
        assert await status(port, "/mutate", api_server) == 200
        assert await status(port, "/mutate", kubelet) == 403

    served(cluster.file, ("kube-apiserver",), story)


def test_without_an_authority_every_client_is_answered(tmp_path: Path) -> None:
    shown = Authority(tmp_path, "any").client("any")

    async def story(port: int) -> None:
        assert await status(port, "/mutate") == 200
        assert await status(port, "/mutate", shown) == 200

    served(None, (), story)


@pytest.mark.parametrize("content", [None, b"nonsense", b""])
def test_a_file_without_an_authority_is_said_and_nothing_is_served(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ClusterRefusal, match="no certificates of an authority"):
        ReviewClients(file).demand(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
