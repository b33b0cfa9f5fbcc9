"""A share may grow up to what its own request was admitted with."""

from __future__ import annotations

import asyncio

import pytest

from moiety.kube.checkpoint import CLAIM, Assignment, Slot
from moiety.kube.client import CLAIMS, CONFIG_MAPS, ApiClient
from moiety.kube.model import names
from moiety.kube.model.share_config import DRIVER
from moiety.kube.namespace_guard import NamespaceGuard
from moiety.kube.namespace_limits import LimitRefusal
from moiety.model.share import Share
from moiety.testing.apiserver import ApiServer


def test_each_request_of_a_claim_grows_up_to_what_it_consumes_itself() -> None:
    results = [
        {"driver": DRIVER, "request": request, "consumedCapacity": {"compute": percent}}
        for request, percent in (("big/large", "70"), ("small", "30"))
    ]
    claim = {
        "metadata": {"name": "train", "uid": "c"},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    rules = {"metadata": {"name": names.NAMESPACES}, "data": {"team": "gpu: 1\nresize: true"}}

    def share(request: str) -> Assignment:
        slots = [Slot("gpu-0", "GPU-0", 20.0)]
        return Assignment(
            f"k8s-c-{request}", CLAIM, "c", slots, Share(gpu=0.2), request, [], "team", "train"
        )

    async def story() -> None:
        async with ApiServer() as server, ApiClient(server.access) as client:
            server.put(CLAIMS, claim, "team")
            server.put(CONFIG_MAPS, rules, names.NAMESPACE)
            guard = NamespaceGuard(client, names.NAMESPACE, frozenset({CLAIM}))
            await guard.check_resize(share("big"), Share(gpu=0.7))
            await guard.check_resize(share("small"), Share(gpu=0.3))
            for request, part in (("big", 0.8), ("small", 0.4)):
                with pytest.raises(LimitRefusal, match="cannot grow beyond"):
                    await guard.check_resize(share(request), Share(gpu=part))

    asyncio.run(asyncio.wait_for(story(), 20))
