"""The webhook beside a real API server, with the rights that deploy/ gives it and no more."""

from __future__ import annotations

import json
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kube.bed import Bed
from tests.kube.inside import NODE
from tests.kube.objects import pod

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "moiety-system"
NAME = "moiety-webhook"
LEFT_OUT = ("DaemonSet", "Deployment", "DeviceClass", "PodDisruptionBudget")
PORT = 9443


class Hook:
    """One copy of it, as a program of the node."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed

    def start(self) -> None:
        kubeconfig = self.bed.folder / "webhook.kubeconfig"
        self.bed.start(
            NAME,
            [
                *(sys.executable, "-m", "moiety", "kube", "webhook", "--port", str(PORT)),
                *("--kubeconfig", str(kubeconfig)),
                *self.bed.client_ca(),
            ],
        )

    def until_it_answers(self, namespace: str) -> None:
        asks = asking("early", namespace)

        def answers() -> bool:
            self.bed.must_run(NAME)
            return self.bed.call(
                "kubectl", "create", "--dry-run=server", "-f", "-", stdin=json.dumps(asks)
            ).returncode == 0  # fmt: skip

        self.bed.until(answers, "the webhook answers")

    def kill(self) -> None:
        self.bed.kill(NAME)


@pytest.fixture(scope="module")
def installed(bed: Bed) -> Iterator[Hook]:
    """What deploy/ has for the webhook; its service leads to the node."""
    remove(bed)  # of tests before these, say
    made = bed.kubectl("kustomize", str(ROOT / "deploy" / "overlays" / "dra"))
    objects = [each for each in yaml.safe_load_all(made) if each["kind"] not in LEFT_OUT]
    for each in objects:
        if each["kind"] == "Service":
            del each["spec"]["selector"]
            each["spec"]["ports"] = [{"name": "https", "port": 443, "targetPort": PORT}]
    objects.append(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "labels": {"kubernetes.io/service-name": NAME},
            },
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": PORT}],
            "endpoints": [{"addresses": [NODE], "conditions": {"ready": True}}],
        }
    )
    bed.apply(*objects)
    of_account(bed)
    hook = Hook(bed)
    hook.start()
    yield hook
    hook.kill()
    remove(bed)


def remove(bed: Bed) -> None:
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    bed.kubectl("delete", kinds, "moiety", "--ignore-not-found")
    bed.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")


def of_account(bed: Bed) -> None:
    """A kubeconfig of the webhook's own account."""
    token = bed.kubectl("create", "token", NAME, "-n", NAMESPACE, "--duration", "4h").strip()
    config = yaml.safe_load((bed.folder / "admin.kubeconfig").read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    (bed.folder / "webhook.kubeconfig").write_text(yaml.safe_dump(config))


@pytest.fixture
def hook(installed: Hook, namespace: str) -> Hook:
    """One that answers."""
    if installed.bed.pid(NAME) is None:
        installed.start()
    installed.until_it_answers(namespace)
    return installed


def asking(name: str, namespace: str, gpu: str = "0.5", **limits: str) -> dict[str, Any]:
    made = pod(name, "sleep", "3600", namespace=namespace)
    if gpu:
        made["metadata"]["annotations"] = {"moiety.dev/gpu": gpu}
    if limits:
        made["spec"]["containers"][0]["resources"] = {"limits": limits}
    return made


def refusal(bed: Bed, made: dict[str, Any]) -> str:
    done = bed.call("kubectl", "create", "-f", "-", stdin=json.dumps(made))
    assert done.returncode != 0
    return done.stderr


def test_an_annotation_becomes_a_claim_that_kubernetes_makes(hook: Hook, namespace: str) -> None:
    bed = hook.bed
    bed.apply(asking("half", namespace))

    bed.until(
        lambda: len(bed.get("resourceclaims", "-n", namespace)["items"]) == 1, "its claim is there"
    )

    (claim,) = bed.get("resourceclaims", "-n", namespace)["items"]
    (request,) = claim["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "gpu.moiety.dev"
    assert request["exactly"]["capacity"]["requests"]["compute"] == "50"
    assert claim["metadata"]["ownerReferences"][0]["name"] == "half"


def test_reviews_of_others_than_the_api_server_are_refused(hook: Hook, namespace: str) -> None:
    made = asking("by-hand", namespace)
    review = {
        "request": {"uid": "u", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": made,
                    "namespace": namespace}
    }  # fmt: skip
    anyone = ssl.create_default_context()
    anyone.check_hostname = False
    anyone.verify_mode = ssl.CERT_NONE
    body = json.dumps(review).encode()
    request = urllib.request.Request(f"https://{NODE}:{PORT}/mutate", body)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, context=anyone, timeout=30)
    assert refused.value.code == 403
    assert "answers the API server" in refused.value.read().decode()
    assert hook.bed.get("resourceclaimtemplates", "-n", namespace)["items"] == []
    # The API server's own reviews are answered: it shows its certificate.
    hook.bed.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(made))


def test_what_is_wrong_is_said_in_the_answer(hook: Hook, namespace: str) -> None:
    said = refusal(hook.bed, asking("much", namespace, "1.7"))
    assert "'1.7' is more than one GPU" in said
    parameters = {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig", "gpus": 1}
    spec = {
        "devices": {
            "requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.moiety.dev"}}],
            "config": [{"opaque": {"driver": "gpu.moiety.dev", "parameters": parameters}}],
        }
    }
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "odd", "namespace": namespace},
        "spec": {"spec": spec},
    }
    assert "unknown field `gpus`" in refusal(hook.bed, template)


def test_a_dry_run_leaves_nothing(hook: Hook, namespace: str) -> None:
    made = json.dumps(asking("dry", namespace, "0.77"))
    hook.bed.kubectl("create", "--dry-run=server", "-f", "-", stdin=made)
    assert hook.bed.get("resourceclaimtemplates", "-n", namespace)["items"] == []


def test_a_resize_that_makes_no_sense_is_refused_when_it_is_written(
    hook: Hook, namespace: str
) -> None:
    allowed = json.dumps({"data": {namespace: "resize: true"}})
    of_rules = ("configmap", "moiety-namespaces", "-n", NAMESPACE)
    hook.bed.kubectl("patch", *of_rules, "--type=merge", "-p", allowed)
    hook.bed.apply(asking("sized", namespace))
    wish = ("annotate", "pod", "sized", "-n", namespace, "--overwrite")
    resized = (*wish, "moiety.dev/resize=gpu=0.6")
    hook.bed.until(
        lambda: hook.bed.call("kubectl", *resized).returncode == 0, "the webhook has read the rule"
    )
    done = hook.bed.call("kubectl", *wish, "moiety.dev/resize=gpu=6")
    assert "more than one GPU" in done.stderr


def test_only_pods_that_ask_depend_on_it(hook: Hook, namespace: str) -> None:
    bed = hook.bed
    hook.kill()

    bed.apply(asking("plain", namespace, gpu=""))
    said = refusal(bed, asking("asks", namespace))
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "later", "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "later"}},
            "template": {
                "metadata": {
                    "labels": {"app": "later"},
                    "annotations": {"moiety.dev/gpu": "0.5"},
                },
                "spec": {"containers": [{"name": "main", "image": "x"}]},
            },
        },
    }
    bed.apply(deployment)

    assert "pods.moiety.dev" in said
    failed = ("events", "-n", namespace, "--field-selector", "reason=FailedCreate")
    bed.until(lambda: bool(bed.get(*failed)["items"]), "the controller says why it has no pod")
    hook.start()
    hook.until_it_answers(namespace)
    of_it = ("pods", "-n", namespace, "-l", "app=later")
    bed.until(lambda: bool(bed.get(*of_it)["items"]), "the controller has made its pod")


def test_a_lost_certificate_is_made_again(hook: Hook, namespace: str) -> None:
    bed = hook.bed
    hook.kill()
    bed.kubectl("delete", "secret", "moiety-webhook-tls", "-n", NAMESPACE)
    hook.start()
    hook.until_it_answers(namespace)
    bed.apply(asking("after", namespace))
