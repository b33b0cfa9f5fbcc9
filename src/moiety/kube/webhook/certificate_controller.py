"""Keeps the webhook's certificate and its registration with the API server current.

All copies of the webhook do the same, and agree through one Secret: the first write wins, and a
copy whose write conflicts reads the Secret again.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import datetime as dt
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from moiety.kube.client import NAMESPACES, ApiClient, ApiError, Object, Resource
from moiety.kube.webhook import certificates, registration
from moiety.kube.webhook.certificates import Certificates
from moiety.kube.webhook.cluster_cache import ClusterCache

SECRETS: Final = Resource("", "v1", "secrets", "Secret")
SECRET: Final = "moiety-webhook-tls"
TRIES: Final = 8


class CertificateController:
    """The controller of one copy of the webhook."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        knowledge: ClusterCache,
        log: Any,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self.client = client
        self.namespace = namespace
        self.knowledge = knowledge
        self.log = log
        self.now = now
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.certificates: Certificates | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the service for the API server."""
        name = f"{registration.SERVICE}.{self.namespace}.svc"
        return (name, f"{name}.cluster.local")

    async def keep(self) -> None:
        """Bring Secret and registration up to date. Raises ApiError."""
        await self.agree()
        await self.register()

    async def agree(self) -> None:
        """Bring the Secret up to date, and serve with its certificate. Raises ApiError."""
        for _ in range(TRIES):
            try:
                found = await self._once()
            except ApiError as no:
                if no.is_conflict:  # another copy was quicker: its certificate will do
                    await asyncio.sleep(0.05)
                    continue
                raise
            if found != self.certificates:
                _load(self.context, found)
                self.certificates = found
                self.log.info("certificate_loaded", until=str(certificates.ends(found)))
            return
        raise ApiError(409, "Conflict", "its content changes all the time", f"secret {SECRET}")

    async def _once(self) -> Certificates:
        try:
            secret = await self.client.get(SECRETS, SECRET, self.namespace)
        except ApiError as no:
            if not no.is_missing:
                raise
            found = certificates.make(self.hosts, self.now())
            await self.client.create(SECRETS, _secret(found), self.namespace)
            return found
        data = {key: base64.b64decode(text) for key, text in (secret.get("data") or {}).items()}
        held = certificates.of_data(data)
        found = certificates.renewed(held, self.hosts, self.now())
        if found != held:
            version = secret["metadata"].get("resourceVersion")
            await self.client.update(SECRETS, _secret(found, version), self.namespace)
        return found

    async def register(self) -> None:
        """Register the authority and the settings' conditions. Raises ApiError."""
        assert self.certificates is not None, "agree comes first"
        trusted, config = self.certificates.trusted, self.knowledge.cluster.config
        owner = await self._owner()
        for resource, wanted in (
            (registration.MUTATING, registration.mutating(config, trusted, self.namespace)),
            (registration.VALIDATING, registration.validating(trusted, self.namespace)),
        ):
            try:
                found = await self.client.get(resource, registration.NAME)
            except ApiError as no:
                if not no.is_missing:
                    raise
                self.log.warning("webhook_not_registered", missing=resource.kind,
                                 hint="kubectl apply -k deploy/overlays/...")  # fmt: skip
                continue
            new = _with(found, wanted, owner)
            if new != found:
                await self.client.update(resource, new)
                self.log.info("webhook_registered", kind=resource.kind)

    async def _owner(self) -> Object | None:
        """The namespace, which owns the registration: without it, pods must not be refused."""
        try:
            found = await self.client.get(NAMESPACES, self.namespace)
        except ApiError:
            return None
        return {
            "apiVersion": "v1",
            "kind": "Namespace",
            "name": self.namespace,
            "uid": found["metadata"]["uid"],
        }


def _with(found: Object, wanted: Object, owner: Object | None) -> Object:
    """A configuration with moiety's certificate and conditions, and all else as it was."""
    new = copy.deepcopy(found)
    by_name = {hook["name"]: hook for hook in wanted["webhooks"]}
    for hook in new.get("webhooks") or []:
        if ours := by_name.get(hook["name"]):
            hook["clientConfig"]["caBundle"] = ours["clientConfig"]["caBundle"]
            hook["matchConditions"] = ours["matchConditions"]
    if owner and owner not in (new["metadata"].get("ownerReferences") or []):
        new["metadata"]["ownerReferences"] = [owner]
    return new


def _secret(found: Certificates, version: str | None = None) -> Object:
    data = {key: base64.b64encode(text).decode() for key, text in found.data().items()}
    metadata: Object = {"name": SECRET, "labels": {"app.kubernetes.io/managed-by": "moiety"}}
    if version:
        metadata["resourceVersion"] = version
    return {"metadata": metadata, "type": "kubernetes.io/tls", "data": data}


def _load(context: ssl.SSLContext, found: Certificates) -> None:
    with tempfile.TemporaryDirectory() as scratch:  # ssl reads these from files only
        chain, key = Path(scratch) / "crt", Path(scratch) / "key"
        chain.write_bytes(found.server)
        key.touch(mode=0o600)
        key.write_bytes(found.server_key)
        context.load_cert_chain(chain, key)
