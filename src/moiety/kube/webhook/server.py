"""Serves the API server's questions over TLS; the work of `moiety kube webhook`."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from moiety.kube import access
from moiety.kube.client import ApiClient, ApiError
from moiety.kube.dialects.request import RequestRefused
from moiety.kube.model import names
from moiety.kube.webhook import namespace_dialects, registration, review, template_gc
from moiety.kube.webhook.admission import Verdict
from moiety.kube.webhook.certificate_controller import CertificateController
from moiety.kube.webhook.clients import ReviewClients
from moiety.kube.webhook.cluster_cache import ClusterCache
from moiety.kube.webhook.namespace_checks import NamespaceChecks
from moiety.kube.webhook.review import NoReview

BODY_MOST: Final = 8 << 20
READY_WITHIN_S: Final = 5.0
KEPT_S: Final = 5.0
"""How long a template is taken to exist; shorter than `template_gc.SETTLE_S`."""
EVERY_S: Final = 60.0
SWEEP_EVERY_S: Final = 600.0
DRAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The options of one copy of the webhook."""

    host: str = "0.0.0.0"
    port: int = 9443
    namespace: str = names.NAMESPACE
    kubeconfig: str | None = None
    client_ca: Path | None = None
    """The authority of the API server's certificate; None: every client is answered."""
    client_names: tuple[str, ...] = ()
    """The common names that count of that authority's certificates; empty: all."""


class Webhook:
    """One copy of the webhook: answers, and remembers the templates that exist."""

    def __init__(
        self, client: ApiClient, namespace: str, log: Any, clients: ReviewClients | None = None
    ) -> None:
        self.client = client
        self.clients = clients or ReviewClients()
        self.log = log
        self.knowledge = ClusterCache(client, namespace, log)
        self.keeper = CertificateController(client, namespace, self.knowledge, log)
        self.checks = NamespaceChecks(
            client, self.knowledge, proven=self.clients.authority is not None
        )
        self._left_alone = registration.left_alone(namespace)
        self._there: dict[tuple[str, str], float] = {}

    def app(self) -> web.Application:
        """The addresses that it serves."""
        app = web.Application(client_max_size=BODY_MOST)
        app.router.add_post("/mutate", self.review)
        app.router.add_post("/validate", self.review)
        app.router.add_get("/healthz", self.health)
        app.router.add_get("/readyz", self.ready)
        return app

    async def health(self, request: web.Request) -> web.Response:
        """Answer that the process runs."""
        return web.Response(text="ok\n")

    async def ready(self, request: web.Request) -> web.Response:
        """Answer whether it knows its cluster and has a certificate."""
        if self.knowledge.is_known and self.keeper.certificates:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="it has not heard of its cluster yet\n")

    async def review(self, request: web.Request) -> web.Response:
        """Answer one request; a refusal always has a reason."""
        shown = request.get_extra_info("peercert")
        if problem := self.clients.refuse(shown):
            self.log.warning("client_refused", client=request.remote, problem=problem)
            return web.Response(status=403, text=f"{problem}\n")
        try:
            asked = review.read(await request.read())
            verdict = await self.decide(asked)
        except NoReview as no:
            return web.Response(status=400, text=f"{no.what}\n")
        return web.json_response(review.answer(asked["uid"], verdict))

    async def decide(self, asked: Any) -> Verdict:
        """The verdict about an object; makes the templates that it needs."""
        if not self.knowledge.is_known:
            return Verdict(problem="moiety: the webhook has just started and does not know the "
                                   "cluster yet (the same once more in a moment)")  # fmt: skip
        if asked.get("namespace") in self._left_alone:
            return Verdict()  # the API server asks nothing of these: a client made this one by hand
        try:
            cluster = await namespace_dialects.view(self.client, asked, self.knowledge.cluster)
        except (ApiError, RequestRefused) as no:
            return Verdict(problem=f"moiety: {no.what}")
        verdict = review.decide(asked, cluster)
        if not verdict.problem and (problem := await self.checks.refuse(asked, verdict)):
            verdict = Verdict(problem=problem)
        if verdict.problem:
            self.log.info("refused", namespace=asked.get("namespace"), name=asked.get("name"),
                          problem=verdict.problem)  # fmt: skip
        if verdict.templates and not asked.get("dryRun"):
            try:
                for template in verdict.templates:
                    await self._make(dict(template), str(asked.get("namespace") or "default"))
            except ApiError as no:
                return Verdict(problem=f"moiety: the claim's template cannot be made: {no.what}")
        return verdict

    async def _make(self, template: dict[str, Any], namespace: str) -> None:
        key, now = (namespace, template["metadata"]["name"]), time.monotonic()
        if self._there.get(key, 0.0) > now:
            return
        await template_gc.make(self.client, template, namespace)
        if len(self._there) > 10_000:
            self._there.clear()
        self._there[key] = now + KEPT_S

    async def until_known(self) -> None:
        """Wait until it knows its cluster."""
        while not self.knowledge.is_known:
            await asyncio.sleep(0.02)

    async def keep(self) -> None:
        """Keep certificate and registration current, for ever; at once after new settings."""
        while True:
            self.knowledge.changed.clear()
            try:
                await self.keeper.keep()
            except ApiError as no:
                self.log.warning("certificate_not_kept", problem=no.what)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self.knowledge.changed.wait()

    async def sweep(self) -> None:
        """Remove unused templates, for ever."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            try:
                await template_gc.sweep(self.client, self.log)
            except ApiError as no:
                self.log.warning("templates_not_swept", problem=no.what)


@contextlib.asynccontextmanager
async def serving(
    client: ApiClient, options: WebhookOptions, log: Any
) -> AsyncIterator[tuple[Webhook, int]]:
    """A webhook that serves while the block lasts, and its port.

    Raises ClusterRefusal if the authority of its clients cannot be read.
    """
    clients = ReviewClients(options.client_ca, options.client_names)
    hook = Webhook(client, options.namespace, log, clients)
    clients.demand(hook.keeper.context)
    watching = asyncio.create_task(hook.knowledge.watch())
    tasks = [watching]
    runner = web.AppRunner(hook.app(), access_log=None, shutdown_timeout=DRAIN_S)
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(hook.until_known(), READY_WITHIN_S)
        await _first_certificate(hook)
        tasks += [asyncio.create_task(hook.keep()), asyncio.create_task(hook.sweep())]
        await runner.setup()
        site = web.TCPSite(
            runner, options.host, options.port, ssl_context=hook.keeper.context, reuse_port=False
        )
        await site.start()
        yield hook, runner.addresses[0][1]
    finally:
        await runner.cleanup()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _first_certificate(hook: Webhook) -> None:
    """Wait for the first certificate; the API server may be away for a while."""
    while True:
        try:
            await hook.keeper.agree()
            return
        except ApiError as no:
            if not (no.is_away or no.is_conflict):
                raise
            hook.log.warning("certificate_missing", problem=no.what)
            await asyncio.sleep(1)


def main(options: WebhookOptions, log: Any) -> None:
    """Serve until SIGTERM or SIGINT. Raises ClusterRefusal where there is no cluster."""
    asyncio.run(_main(options, log))


async def _main(options: WebhookOptions, log: Any) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with (
        ApiClient(access.find(options.kubeconfig)) as client,
        serving(client, options, log) as (_, port),
    ):
        log.info("webhook_serving", port=port, namespace=options.namespace)
        await ended.wait()
        log.info("webhook_ending")
