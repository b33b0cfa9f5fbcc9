"""The pods of a node stay those that there are, also over gaps of their watch."""

from __future__ import annotations

import asyncio
import contextlib

from moiety.kube.client import PODS, ApiClient, ApiError
from moiety.kube.pods import Pod, Pods
from moiety.testing.apiserver import ApiServer
from moiety.testing.waiting import Changes


def put(server: ApiServer, name: str) -> None:
    server.put(PODS, {"metadata": {"name": name}, "spec": {"nodeName": "a"}}, "team")


def test_a_pod_that_went_while_pods_could_not_be_read_is_forgotten() -> None:
    async def story() -> None:
        changes = Changes()

        def tell(_: Pod) -> None:
            changes.tell()

        async with ApiServer() as server, ApiClient(server.access) as client:
            pods = Pods(client, "a", tell)

            async def follow() -> None:
                with contextlib.suppress(ApiError):
                    await pods.follow()
                changes.tell()

            put(server, "gone")
            put(server, "web-0")
            first = asyncio.create_task(follow())
            await changes.until(lambda: len(pods.by_uid) == 2)
            server.fail = lambda *_: 403
            server.forget()
            await changes.until(first.done)
            server.remove(PODS, "gone", "team")
            server.remove(PODS, "web-0", "team")
            put(server, "web-0")
            put(server, "last")
            server.fail = lambda *_: 0
            again = asyncio.create_task(follow())
            await changes.until(
                lambda: pods.named("team", "last") is not None and len(pods.by_uid) == 2
            )
            again.cancel()
            now = server.get(PODS, "web-0", "team")
            assert now is not None
            assert set(pods.names().values()) == {"team/web-0", "team/last"}
            assert now["metadata"]["uid"] in pods.by_uid

    asyncio.run(asyncio.wait_for(story(), 20))
