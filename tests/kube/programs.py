"""How each program of the control plane and of the node is started; nothing is run here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.kube import setup
from tests.kube.inside import NODE, SERVICE

NODE_NAME: Final = "bed"
SERVICES: Final = "10.250.0.0/24"
PODS: Final = "10.250.2.0/23"
PORT: Final = 443
"""The port at which pods look for the API server; nothing here stands between."""
CONTAINERD: Final = "/run/containerd/containerd.sock"
PAUSE: Final = "moiety.test/pause:1"
API_SERVER: Final = "kube-apiserver"
"""The common name of the certificate that the API server shows to webhooks."""
CLIENTS: Final = "clients"
"""The authority of that certificate: `pki/clients.crt`."""
SHOWN: Final = {"client-certificate": "crt", "client-key": "key"}
USERS: Final = {
    "admin": ("admin", "system:masters"),
    "kubelet": (f"system:node:{NODE_NAME}", "system:nodes"),
    "controller-manager": ("system:kube-controller-manager", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
    "kwok": ("kwok", "system:masters"),
}
"""Who there is: their user name and group. Tokens are the keys, for nobody else gets in."""


def binary(name: str) -> str:
    """The path of a program."""
    return str(setup.program(name) or name)


def tokens() -> str:
    """The API server's list of users."""
    lines = [f'{key},{user},{key},"{group}"' for key, (user, group) in USERS.items()]
    return "\n".join(lines) + "\n"


def kubeconfig(folder: Path, user: str) -> dict[str, Any]:
    """How that user reaches the API server."""
    authority = str(folder / "pki" / "apiserver.crt")
    server = f"https://{SERVICE}:{PORT}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "bed", "cluster": {"server": server, "certificate-authority": authority}}
        ],
        "users": [{"name": user, "user": {"token": user}}],
        "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": user}}],
        "current-context": "bed",
    }


def shown_to_webhooks(folder: Path) -> dict[str, Any]:
    """The certificate that the API server shows to webhooks."""
    files = {kind: str(folder / "pki" / f"{API_SERVER}.{end}") for kind, end in SHOWN.items()}
    return {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": files}]}


def admission_config(folder: Path) -> dict[str, Any]:
    """The API server's way to webhooks."""
    group = "apiserver.config.k8s.io/v1"
    config = {
        "apiVersion": group,
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(folder / "webhooks.kubeconfig"),
    }
    plugins = [
        {"name": f"{kind}AdmissionWebhook", "configuration": config}
        for kind in ("Mutating", "Validating")
    ]
    return {"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}


def containerd_config(folder: Path) -> str:
    """Containerd's, with all that it keeps in `folder`."""
    cni = folder / "cni"
    return f"""
version = 3
root = "{folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
address = "{CONTAINERD}"
[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{setup.cni_plugins()}"]
conf_dir = "{cni}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def network() -> dict[str, Any]:
    """The network of pods: a bridge, and the node is their way to everything else."""
    address = {"type": "host-local", "ranges": [[{"subnet": PODS}]]}
    route = {"routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": address | route}
    return {"cniVersion": "1.0.0", "name": "bed", "plugins": [bridge]}


def kubelet_config(folder: Path) -> dict[str, Any]:
    """The kubelet's."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{folder.name}",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        "clusterDNS": ["10.250.0.10"],  # nobody answers there
        "evictionHard": {},
        "failCgroupV1": False,
        "failSwapOn": False,
        "fileCheckFrequency": "1s",
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "maxPods": 250,
        "nodeStatusUpdateFrequency": "2s",
        "readOnlyPort": 0,
        "registerNode": True,
        "resolvConf": "",
        "volumeStatsAggPeriod": "-1s",
    }


def scheduler_config(folder: Path) -> dict[str, Any]:
    """The scheduler's, as it comes but for the rate of its requests, which is a cluster's."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(folder / "scheduler.kubeconfig"),
            "qps": 1000,
            "burst": 2000,
        },
        "leaderElection": {"leaderElect": False},
    }


def stage(kind: str, name: str, key: str, template: str) -> dict[str, Any]:
    """What kwok does to nodes or pods that lack `key` in their status."""
    missing = {"key": key, "operator": "DoesNotExist"}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": [missing]},
            "next": {"statusTemplate": template},
        },
    }


def kwok_config() -> str:
    """Nodes that are ready from the start, and pods that run as soon as they are placed."""
    condition = "conditions: [{type: Ready, status: 'True', lastTransitionTime: {{ Quote Now }}}]"
    stages = (
        stage("Node", "node-is-ready", ".status.conditions", condition),
        stage(
            "Pod",
            "pod-runs",
            ".status.startTime",
            f"phase: Running\nstartTime: {{{{ Quote Now }}}}\n{condition}",
        ),
    )
    return "---\n".join(json.dumps(found, indent=2) + "\n" for found in stages)


def files(folder: Path) -> dict[str, str]:
    """All settings, by the name of the file in `folder`."""
    found: dict[str, Any] = {f"{user}.kubeconfig": kubeconfig(folder, user) for user in USERS}
    found |= {"kubelet.json": kubelet_config(folder), "scheduler.json": scheduler_config(folder)}
    found |= {"cni/bed.conflist": network(), "webhooks.kubeconfig": shown_to_webhooks(folder)}
    found |= {"admission.json": admission_config(folder)}
    texts = {name: json.dumps(content, indent=2) + "\n" for name, content in found.items()}
    texts["kwok.yaml"] = kwok_config()
    return texts | {"tokens.csv": tokens(), "containerd.toml": containerd_config(folder)}


def commands(folder: Path) -> dict[str, list[str]]:
    """By name, in the order in which they can be started."""
    key = folder / "pki" / "accounts.key"
    issuer = "https://kubernetes.default.svc"
    return {
        "etcd": [
            binary("etcd"),
            f"--data-dir={folder}/etcd/data",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--quota-backend-bytes=4294967296",
        ],
        "kube-apiserver": [
            binary("kube-apiserver"),
            "--etcd-servers=http://127.0.0.1:2379",
            f"--cert-dir={folder}/pki",
            f"--secure-port={PORT}",
            f"--advertise-address={NODE}",
            f"--service-cluster-ip-range={SERVICES}",
            f"--token-auth-file={folder}/tokens.csv",
            f"--service-account-issuer={issuer}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--admission-control-config-file={folder}/admission.json",
            "--enable-aggregator-routing=true",  # services of webhooks without kube-proxy
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            "--max-requests-inflight=1000",
            "--max-mutating-requests-inflight=500",
        ],
        "kube-controller-manager": [
            binary("kube-controller-manager"),
            f"--kubeconfig={folder}/controller-manager.kubeconfig",
            f"--root-ca-file={folder}/pki/apiserver.crt",
            f"--service-account-private-key-file={key}",
            "--leader-elect=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--bind-address=127.0.0.1",
        ],
        "kube-scheduler": [
            binary("kube-scheduler"),
            f"--config={folder}/scheduler.json",
            "--bind-address=127.0.0.1",
        ],
        "containerd": [binary("containerd"), "--config", f"{folder}/containerd.toml"],
        "kubelet": [
            binary("kubelet"),
            f"--config={folder}/kubelet.json",
            f"--kubeconfig={folder}/kubelet.kubeconfig",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={NODE}",
        ],
        "kwok": [
            binary("kwok"),
            f"--kubeconfig={folder}/kwok.kubeconfig",
            f"--config={folder}/kwok.yaml",
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        ],
    }
