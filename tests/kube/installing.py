"""Moiety as a cluster installs it: from its image and from `deploy/`, every part in a pod."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, Final

from tests.kube import inside, product
from tests.kube.bed import Bed
from tests.kube.programs import NODE_NAME
from tests.kube.sharing import DRIVER, SYSTEM

NODE_PODS: Final = "app.kubernetes.io/name=moiety-node"
GPU: Final = "A100-80:memory=64MiB,link=4GB/s"
STATE: Final = "/var/lib/moiety/simgpu"
ROLL_S: Final = 240
ROOTS: Final = (
    "/run/moiety",
    "/var/lib/moiety",
    "/var/log/moiety",
    "/var/lib/kubelet/plugins/gpu.moiety.dev",
)
PATTERNS: Final = (
    "/run/cdi/moiety-*",
    "/var/lib/kubelet/plugins_registry/gpu.moiety.dev*",
    "/var/lib/kubelet/device-plugins/moiety-*",
)


class Installation:
    """One overlay of `deploy/` with a simulated GPU, in an overlay of its own as users have it."""

    def __init__(self, bed: Bed, overlay: str) -> None:
        self.bed = bed
        self.overlay = overlay
        self.folder = Path(tempfile.mkdtemp(prefix="overlay-", dir=bed.folder))
        bin_dir = str(Path(sys.executable).parent)
        bed.env["PATH"] = f"{bed.env['PATH']}:{bin_dir}"  # kubectl-moiety

    def kustomization(self, tag: str) -> Path:
        """The overlay that names an image."""
        base = os.path.relpath(product.ROOT / "deploy" / "overlays" / self.overlay, self.folder)
        env = [
            {"name": "MOIETY_SIMGPU", "value": GPU},
            {"name": "MOIETY_SIMGPU_STATE", "value": STATE},
        ]
        containers = [{"name": name, "env": env} for name in ("agent", "node")]
        patch = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "moiety-node"},
            "spec": {"template": {"spec": {"containers": containers}}},
        }
        made = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [base],
            "images": [{"name": "moiety", "newTag": tag}],
            "patches": [{"patch": json.dumps(patch)}],
        }
        (self.folder / "kustomization.yaml").write_text(json.dumps(made, indent=2))
        return self.folder

    def apply(self, tag: str = "latest") -> None:
        """Install it, or upgrade to another image; until all of it is ready."""
        self.bed.kubectl("label", "node", NODE_NAME, "moiety.dev/node=true", "--overwrite")
        self.bed.kubectl("apply", "-k", str(self.kustomization(tag)))
        wait = ("rollout", "status", "ds/moiety-node", "deploy/moiety-webhook")
        try:
            self.bed.kubectl("-n", SYSTEM, *wait, f"--timeout={ROLL_S}s", timeout_s=2 * ROLL_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from None

    def told(self) -> str:
        """What the pods and their programs say, for whoever reads that a test has failed."""
        found = self.bed.call("kubectl", "-n", SYSTEM, "describe", "pods").stdout
        for name in ("ds/moiety-node", "deploy/moiety-webhook"):
            options = ("--all-containers", "--prefix", "--tail=20")
            found += self.bed.call("kubectl", "-n", SYSTEM, "logs", name, *options).stdout
        return found

    def node_pod(self) -> str:
        """The name of the DaemonSet's pod."""
        listed = self.bed.get("pods", "-n", SYSTEM, "-l", NODE_PODS)["items"]
        (name,) = [
            each["metadata"]["name"]
            for each in listed
            if "deletionTimestamp" not in each["metadata"]
        ]
        return str(name)

    def agent(self, *arguments: str) -> str:
        """What a command of moiety prints beside the agent."""
        there = ("exec", "-n", SYSTEM, self.node_pod(), "-c", "agent", "--", "moiety")
        return self.bed.kubectl(*there, *arguments)

    def tenants(self) -> int:
        """How many programs the agent knows."""
        return len(json.loads(self.agent("ps", "-o", "json")))

    def evicted(self) -> set[str]:
        """The workloads that had to give way."""
        told = (json.loads(line) for line in self.agent("events", "-o", "json").splitlines())
        return {each["workload"] for each in told if each["reason"] == "Evicted"}

    def metrics(self) -> str:
        """What the agent tells Prometheus, through a way that kubectl makes to it."""
        if self.bed.pid("forward") is None:
            way = ("port-forward", "-n", SYSTEM, "ds/moiety-node", "9402")
            self.bed.start("forward", ["kubectl", *way])
        try:
            with urllib.request.urlopen("http://127.0.0.1:9402/metrics", timeout=30) as answer:
                return str(answer.read().decode())
        except OSError:  # it is only being made
            return ""

    def uninstall(self) -> None:
        """As the documentation says."""
        bed = self.bed
        bed.kubectl("moiety", "uninstall", "--yes")
        bed.kubectl("delete", "-k", str(self.folder), "--ignore-not-found")
        remove = str(product.ROOT / "deploy" / "remove")
        bed.kubectl("apply", "-k", remove)
        wait = ("rollout", "status", "ds/moiety-remove", f"--timeout={ROLL_S}s")
        bed.kubectl("-n", "moiety-remove", *wait, timeout_s=2 * ROLL_S)
        bed.kubectl("delete", "-k", remove)

    def clean(self) -> None:
        """Whatever became of the test: the next one finds nothing of this one."""
        bed = self.bed
        bed.kill("forward")
        bed.call("kubectl", "delete", "-k", str(self.folder), "--ignore-not-found")
        bed.call("kubectl", "delete", "-k", str(product.ROOT / "deploy" / "remove"),
                 "--ignore-not-found")  # fmt: skip
        bed.call("kubectl", "delete", "resourceslices", "--field-selector",
                 f"spec.driver={DRIVER}")  # fmt: skip
        bed.call("kubectl", "label", "node", NODE_NAME, "moiety.dev/node-")
        gone = ("pods", "-n", SYSTEM)
        bed.until(lambda: not bed.get(*gone)["items"], "moiety's own pods are gone")
        for path in self.files():
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        shutil.rmtree(self.folder)

    # What is there

    @staticmethod
    def files() -> list[Path]:
        """What there is of moiety on the node; what is mounted here counts for what is in it."""
        found = []
        for root in map(Path, ROOTS):
            if str(root) in inside.FOLDERS.values():
                found += sorted(root.iterdir())
            elif root.exists():
                found.append(root)
        for pattern in PATTERNS:
            found += sorted(Path("/").glob(pattern.lstrip("/")))
        return found

    def objects(self) -> list[str]:
        """What there is of moiety in the cluster: `KIND/NAME`."""
        kinds = self.bed.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        usual = [each for each in kinds if each not in ("events", "events.events.k8s.io")]
        listed: list[dict[str, Any]] = self.bed.get(",".join(usual), "-A")["items"]
        return sorted(
            f"{each['kind']}/{each['metadata']['name']}" for each in listed if _is_ours(each)
        )


def _is_ours(found: dict[str, Any]) -> bool:
    metadata = found["metadata"]
    labels = metadata.get("labels") or {}
    words = (
        metadata["name"],
        metadata.get("namespace", ""),
        labels.get("app.kubernetes.io/part-of", ""),
        labels.get("app.kubernetes.io/managed-by", ""),
        (found.get("spec") or {}).get("driver", ""),
    )
    return any("moiety" in str(word) for word in words)
