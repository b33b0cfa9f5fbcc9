from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from moiety.cli.kube import webhook
from moiety.kube.cluster_gpus import Fleet
from moiety.kube.dialects import resolve
from moiety.kube.dialects.request import SPELLINGS
from moiety.kube.model import names
from moiety.kube.model.share_config import DRIVER
from moiety.kube.webhook import webhook_config
from moiety.kube.webhook.admission import AllocationMethod
from moiety.kube.webhook.certificate_controller import SECRET

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
KUBECTL = shutil.which("kubectl")
OVERLAYS = ("dra", "plugin", "simgpu", "migration")


def made(overlay: str) -> list[dict[str, Any]]:
    if KUBECTL is None:
        pytest.skip("kubectl, which has kustomize in it, is not installed")
    done = subprocess.run(
        [KUBECTL, "kustomize", str(DEPLOY / "overlays" / overlay)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def one(found: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (match,) = [e for e in found if (e["kind"], e["metadata"]["name"]) == (kind, name)]
    return match


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_everything_is_in_our_namespace_and_says_whose_it_is(overlay: str) -> None:
    for each in made(overlay):
        where = each["metadata"].get("namespace")
        assert where in (None, names.NAMESPACE)
        assert each["metadata"]["labels"]["app.kubernetes.io/part-of"] == "moiety"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_settings_and_sizes_make_sense(overlay: str) -> None:
    found = made(overlay)
    settings = one(found, "ConfigMap", names.SETTINGS)["data"]
    sizes = one(found, "ConfigMap", names.SIZES)["data"]
    read = webhook_config.read(settings, sizes, Fleet())
    assert read.problems == ()
    assert read.cluster.by is (
        AllocationMethod.UNITS if overlay == "plugin" else AllocationMethod.CLAIMS
    )
    assert read.cluster.config.sizes["small"] == {"gpu": "0.25", "memory": "10Gi"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_words_of_other_systems_are_read_everywhere_only_by_the_migration_overlay(
    overlay: str,
) -> None:
    settings = one(made(overlay), "ConfigMap", names.SETTINGS)["data"]
    config = webhook_config.read(settings, {}, Fleet()).cluster.config
    moves = overlay == "migration"
    assert config.spellings == (SPELLINGS if moves else ("moiety",))
    assert set(config.schedulers) == (resolve.SCHEDULERS if moves else set())


def test_the_agent_asks_for_the_memory_that_evicted_data_may_take() -> None:
    node = yaml.safe_load((DEPLOY / "base" / "node.yaml").read_text())
    agent = node["spec"]["template"]["spec"]["containers"][0]
    assert agent["name"] == "agent"
    resources = agent["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    assert "--arena" not in " ".join(agent["command"])  # then it is a part of that limit
    assert not any(each["name"] == "MOIETY_AGENT_ARENA" for each in agent["env"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_overlay_keeps_the_agents_request_at_its_limit(overlay: str) -> None:
    pod = one(made(overlay), "DaemonSet", "moiety-node")["spec"]["template"]["spec"]
    (agent,) = [each for each in pod["containers"] if each["name"] == "agent"]
    assert agent["resources"]["requests"]["memory"] == agent["resources"]["limits"]["memory"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_container_has_more_rights_than_are_listed(overlay: str) -> None:
    found = made(overlay)
    pods = [
        e["spec"]["template"]["spec"] for e in found if e["kind"] in ("DaemonSet", "Deployment")
    ]
    containers = [container for pod in pods for container in pod["containers"]]
    assert len(containers) == 3
    for each in containers:
        own = each["securityContext"]
        assert own["capabilities"]["drop"] == ["ALL"]
        assert not own["allowPrivilegeEscalation"]
        assert own["readOnlyRootFilesystem"]
        assert "privileged" not in own
    rules = [rule for e in found if e["kind"] in ("Role", "ClusterRole") for rule in e["rules"]]
    for rule in rules:
        for field in ("apiGroups", "resources", "verbs"):
            assert "*" not in rule[field]


def test_a_class_is_there_where_pods_get_claims_and_only_there() -> None:
    found = one(made("dra"), "DeviceClass", DRIVER)
    assert found["spec"]["extendedResourceName"] == names.GPU
    assert "DeviceClass" not in {each["kind"] for each in made("plugin")}


def test_the_webhook_may_touch_its_own_secret_only() -> None:
    role = one(made("dra"), "Role", "moiety-webhook")
    reads = [r for r in role["rules"] if "secrets" in r["resources"] and "get" in r["verbs"]]
    assert [rule["resourceNames"] for rule in reads] == [[SECRET]]


def test_to_the_webhook_only_its_port_is_open() -> None:
    found = made("dra")
    policy = one(found, "NetworkPolicy", "moiety-webhook")["spec"]
    deployment = one(found, "Deployment", "moiety-webhook")["spec"]["template"]
    selected = policy["podSelector"]["matchLabels"].items()
    assert selected <= deployment["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress"]
    (container,) = deployment["spec"]["containers"]
    assert [rule["ports"] for rule in policy["ingress"]] == [
        [{"port": port["name"], "protocol": "TCP"}] for port in container["ports"]
    ]


def test_a_component_has_the_webhook_ask_for_the_api_servers_certificate(tmp_path: Path) -> None:
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(DEPLOY / "overlays" / "dra", tmp_path)],
        "components": [os.path.relpath(DEPLOY / "components" / "client-certificate", tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    spec = one(made(str(tmp_path)), "Deployment", "moiety-webhook")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    file = Path(container["args"][container["args"].index("--client-ca") + 1])
    (mount,) = (m for m in container["volumeMounts"] if m["mountPath"] == str(file.parent))
    (volume,) = (v for v in spec["volumes"] if v["name"] == mount["name"])
    assert volume["configMap"]["name"] == "moiety-webhook-clients"
    context = click.Context(webhook, info_name="webhook")
    webhook.parse_args(context, list(container["args"]))
    assert context.params["client_ca"] == file
