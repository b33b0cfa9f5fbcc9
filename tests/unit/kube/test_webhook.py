from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
import structlog

from moiety.kube.access import Access
from moiety.kube.client import CONFIG_MAPS, NAMESPACES, PODS, SLICES, ApiClient
from moiety.kube.dialects.request import WebhookConfig
from moiety.kube.model import names
from moiety.kube.webhook import registration, template_gc
from moiety.kube.webhook.certificate_controller import SECRET, SECRETS, CertificateController
from moiety.kube.webhook.cluster_cache import ClusterCache
from moiety.kube.webhook.server import EVERY_S, Webhook, WebhookOptions, serving
from moiety.kube.webhook.template_gc import TEMPLATES
from moiety.testing.apiserver import ApiServer

ROOT = Path(__file__).resolve().parents[3]
HOST = "moiety-webhook.moiety-system.svc"
LOG = structlog.wrap_logger(structlog.ReturnLogger())
GPU = {
    "attributes": {"productName": {"string": "NVIDIA A100"}},
    "capacity": {"memory": {"value": "80Gi"}},
}


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(body(), 60))


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[tuple[ApiServer, ApiClient]]:
    async with ApiServer() as server, ApiClient(server.access, patience_s=1) as client:
        server.put(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
        server.put(registration.MUTATING, registration.mutating(WebhookConfig()))
        server.put(registration.VALIDATING, registration.validating())
        server.put(
            SLICES, {"metadata": {"name": "a"}, "spec": {"driver": "gpu.moiety.dev",
                                                         "devices": [GPU]}}
        )  # fmt: skip
        yield server, client


class Asker:
    """Asks as the API server does: TLS, by the service's name, trusting the caBundle."""

    def __init__(self, server: ApiServer, port: int) -> None:
        self.server = server
        self.port = port

    async def __call__(
        self, path: str, body: Any, kind: str = "Pod", **more: Any
    ) -> dict[str, Any]:
        request = {"uid": "u", "kind": {"kind": kind}, "operation": "CREATE", "object": body,
                   "namespace": "team"} | more  # fmt: skip
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"https://127.0.0.1:{self.port}{path}",
                json={"request": request},
                ssl=self.trusted(),
                server_hostname=HOST,
            ) as response,
        ):
            found: dict[str, Any] = (await response.json())["response"]
            return found

    def trusted(self) -> ssl.SSLContext:
        found = self.server.get(registration.MUTATING, registration.NAME)
        assert found is not None
        bundle = found["webhooks"][0]["clientConfig"]["caBundle"]
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())


async def registered(server: ApiServer, hook: Webhook) -> None:
    """Until the API server was told of the certificate that is served now."""

    def is_told() -> bool:
        found = server.get(registration.VALIDATING, registration.NAME)
        assert found is not None
        assert hook.keeper.certificates is not None
        wanted = base64.b64encode(hook.keeper.certificates.trusted).decode()
        return all(h["clientConfig"].get("caBundle") == wanted for h in found["webhooks"])

    await server.changes.until(is_told)


def asks(text: str = "0.5") -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "annotations": {"moiety.dev/gpu": text}},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }


OPTIONS = WebhookOptions(host="127.0.0.1", port=0)


def test_a_pod_is_answered_over_tls_and_its_template_is_there_before_the_answer() -> None:
    async def body() -> None:
        async with cluster() as (server, client), serving(client, OPTIONS, LOG) as (hook, port):
            await registered(server, hook)
            answer = await Asker(server, port)("/mutate", asks())
            patch = json.loads(base64.b64decode(answer["patch"]))
            claims = next(each for each in patch if each["path"] == "/spec/resourceClaims")
            name = claims["value"][0]["resourceClaimTemplateName"]
            assert server.get(TEMPLATES, name, "team") is not None

    run(body)


def test_a_dry_run_makes_nothing() -> None:
    async def body() -> None:
        async with cluster() as (server, client), serving(client, OPTIONS, LOG) as (hook, port):
            await registered(server, hook)
            answer = await Asker(server, port)("/mutate", asks(), dryRun=True)
            assert answer["allowed"]
            assert server.all(TEMPLATES, "team") == []

    run(body)


@pytest.mark.parametrize("namespace", registration.left_alone(OPTIONS.namespace))
def test_a_review_made_by_hand_makes_nothing_in_a_namespace_that_is_left_alone(
    namespace: str,
) -> None:
    async def body() -> None:
        async with cluster() as (server, client), serving(client, OPTIONS, LOG) as (hook, port):
            await registered(server, hook)
            answer = await Asker(server, port)("/mutate", asks(), namespace=namespace)
            assert answer["allowed"]
            assert "patch" not in answer
            assert server.all(TEMPLATES, namespace) == []

    run(body)


def test_many_pods_at_once_that_ask_for_the_same_have_one_template() -> None:
    async def body() -> None:
        async with cluster() as (server, client), serving(client, OPTIONS, LOG) as (hook, port):
            await registered(server, hook)
            ask = Asker(server, port)
            answers = await asyncio.gather(*(ask("/mutate", asks()) for _ in range(20)))
            assert all(each["allowed"] for each in answers)
            assert len(server.all(TEMPLATES, "team")) == 1

    run(body)


def test_a_refusal_and_a_claim_that_makes_no_sense_are_said() -> None:
    async def body() -> None:
        async with cluster() as (server, client), serving(client, OPTIONS, LOG) as (hook, port):
            await registered(server, hook)
            ask = Asker(server, port)
            answer = await ask("/mutate", asks("1.7"))
            assert not answer["allowed"]
            assert "more than one GPU" in answer["status"]["message"]
            opaque = {"driver": "gpu.moiety.dev", "parameters": {"kind": "Banana"}}
            spec = {"devices": {"config": [{"opaque": opaque}]}}
            answer = await ask("/validate", {"spec": {"spec": spec}}, "ResourceClaimTemplate")
            assert not answer["allowed"]

    run(body)


def test_an_api_server_that_makes_no_template_refuses_the_pod_with_the_reason() -> None:
    async def body() -> None:
        async with cluster() as (server, client), serving(client, OPTIONS, LOG) as (hook, port):
            await registered(server, hook)
            server.fail = lambda _, path: 403 if "templates" in path else 0
            answer = await Asker(server, port)("/mutate", asks())
            assert not answer["allowed"]
            assert "template cannot be made" in answer["status"]["message"]

    run(body)


def test_settings_count_as_soon_as_they_are_written() -> None:
    async def body() -> None:
        async with cluster() as (server, client), serving(client, OPTIONS, LOG) as (hook, port):
            await registered(server, hook)
            server.put(
                CONFIG_MAPS,
                {
                    "metadata": {"name": names.SETTINGS},
                    "data": {"metagpu-resources": "a.b/c", "spellings": "metagpu"},
                },
                names.NAMESPACE,
            )

            def is_told() -> bool:
                found = server.get(registration.MUTATING, registration.NAME)
                assert found is not None
                return "'a.b/c'" in found["webhooks"][0]["matchConditions"][0]["expression"]

            await server.changes.until(is_told)
            pod = {"metadata": {}, "spec": {"containers": [
                {"name": "main", "resources": {"limits": {"a.b/c": "30"}}}]}}  # fmt: skip
            answer = await Asker(server, port)("/mutate", pod)
            assert "patch" in answer

    run(body)


def hami() -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
    containers = [{"name": "main", "image": "x", "resources": {"limits": limits}}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers}}


def test_words_of_another_system_are_read_where_the_namespace_says_so() -> None:
    async def body() -> None:
        async with cluster() as (server, client), serving(client, OPTIONS, LOG) as (hook, port):
            await registered(server, hook)
            ask = Asker(server, port)
            for label, said in (("kai", "as it is"), ("hami", "changed"), ("hamy", "no dialect")):
                labels = {names.DIALECTS: label}
                server.put(NAMESPACES, {"metadata": {"name": "team", "labels": labels}})
                answer = await ask("/mutate", hami())
                if answer["allowed"]:
                    assert said == ("changed" if "patch" in answer else "as it is")
                else:
                    assert said in answer["status"]["message"]

    run(body)


def test_two_copies_agree_on_one_certificate() -> None:
    async def body() -> None:
        async with cluster() as (server, client):
            keepers = [
                CertificateController(
                    client, names.NAMESPACE, ClusterCache(client, names.NAMESPACE, LOG), LOG
                )
                for _ in range(4)
            ]
            await asyncio.gather(*(each.agree() for each in keepers))
            assert len({each.certificates for each in keepers}) == 1
            assert server.get(SECRETS, SECRET, names.NAMESPACE) is not None

    run(body)


def test_a_certificate_that_is_due_is_renewed_and_the_other_copy_follows() -> None:
    async def body() -> None:
        async with cluster() as (server, client):
            day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

            def now() -> dt.datetime:
                return day

            one, other = (
                CertificateController(
                    client, names.NAMESPACE, ClusterCache(client, names.NAMESPACE, LOG), LOG, now
                )
                for _ in range(2)
            )
            await one.keep()
            first = one.certificates
            day += dt.timedelta(days=70)
            await one.keep()
            await other.keep()
            assert one.certificates != first
            assert one.certificates == other.certificates
            day += dt.timedelta(days=600)
            await other.keep()
            await one.keep()
            assert one.certificates == other.certificates
            found = server.get(registration.MUTATING, registration.NAME)
            assert found is not None
            assert one.certificates is not None
            bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])
            assert bundle == one.certificates.trusted

    run(body)


def test_a_secret_that_somebody_broke_is_made_again() -> None:
    async def body() -> None:
        async with cluster() as (server, client):
            server.put(SECRETS, {"metadata": {"name": SECRET}, "data": {}}, names.NAMESPACE)
            keeper = CertificateController(
                client, names.NAMESPACE, ClusterCache(client, names.NAMESPACE, LOG), LOG
            )
            await keeper.agree()
            found = server.get(SECRETS, SECRET, names.NAMESPACE)
            assert found is not None
            assert "tls.crt" in found["data"]

    run(body)


def test_the_registration_is_the_namespaces_and_keeps_what_others_wrote() -> None:
    async def body() -> None:
        async with cluster() as (server, client):
            mine = registration.mutating(WebhookConfig())
            mine["webhooks"][0]["timeoutSeconds"] = 3
            server.put(registration.MUTATING, mine)
            keeper = CertificateController(
                client, names.NAMESPACE, ClusterCache(client, names.NAMESPACE, LOG), LOG
            )
            await keeper.keep()
            found = server.get(registration.MUTATING, registration.NAME)
            assert found is not None
            assert found["webhooks"][0]["timeoutSeconds"] == 3
            (owner,) = found["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"]) == ("Namespace", names.NAMESPACE)

    run(body)


def template(name: str, made: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    labels = {names.MANAGED_BY: "moiety"}
    metadata = {"name": name, "labels": labels, "creationTimestamp": made}
    return {"metadata": metadata, "spec": {"spec": {}}}


def test_templates_of_nobody_go_and_those_that_pods_need_stay() -> None:
    async def body() -> None:
        async with cluster() as (server, client):
            young = dt.datetime.now(dt.UTC).isoformat()
            for name in ("moiety-a", "moiety-b", "moiety-c", "own"):
                server.put(TEMPLATES, template(name), "team")
            server.put(TEMPLATES, template("moiety-d", young), "team")
            for phase, name in (("Running", "moiety-a"), ("Succeeded", "moiety-b")):
                claims = [{"name": "g", "resourceClaimTemplateName": name}]
                labels = {names.SHARED: "claim"}
                server.put(
                    PODS,
                    {
                        "metadata": {"name": f"pod-{name}", "labels": labels},
                        "spec": {"resourceClaims": claims},
                        "status": {"phase": phase},
                    },
                    "team",
                )
            assert await template_gc.sweep(client, LOG, settle_s=0) == 2
            left = [each["metadata"]["name"] for each in server.all(TEMPLATES, "team")]
            assert sorted(left) == ["moiety-a", "moiety-d", "own"]

    run(body)


def test_a_template_that_is_named_in_the_moment_in_which_it_goes_is_made_again() -> None:
    async def body() -> None:
        async with cluster() as (server, client):
            server.put(TEMPLATES, template("moiety-a"), "team")
            sweeping = asyncio.create_task(template_gc.sweep(client, LOG, settle_s=0.5))
            await server.changes.until(lambda: not server.get(TEMPLATES, "moiety-a", "team"))
            claims = [{"name": "g", "resourceClaimTemplateName": "moiety-a"}]
            labels = {names.SHARED: "claim"}
            server.put(
                PODS,
                {"metadata": {"name": "p", "labels": labels}, "spec": {"resourceClaims": claims}},
                "team",
            )
            assert await sweeping == 0
            assert server.get(TEMPLATES, "moiety-a", "team") is not None

    run(body)


def test_the_registration_in_deploy_is_what_the_code_says() -> None:
    import yaml

    file = ROOT / "deploy" / "base" / "webhook-registration.yaml"
    found = list(yaml.safe_load_all(file.read_text()))
    for each in found:
        del each["metadata"]["labels"]
    assert found == [registration.mutating(WebhookConfig()), registration.validating()]


def test_settings_that_change_while_others_are_registered_are_registered_at_once() -> None:
    class Keeper:
        kept = 0

        async def keep(self) -> None:
            self.kept += 1
            if self.kept == 2:
                raise asyncio.CancelledError  # as at its end
            hook.knowledge.changed.set()

    hook = Webhook(ApiClient(Access("http://127.0.0.1:1")), names.NAMESPACE, LOG)
    hook.keeper = cast("CertificateController", Keeper())

    async def body() -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(hook.keep(), EVERY_S / 2)

    run(body)
