"""What moiety is on the cluster's node: an agent with simulated GPUs, and `moiety kube node`."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.containers.images import of_host, with_worker
from tests.kube import images
from tests.kube.bed import Bed
from tests.kube.inside import NODE
from tests.kube.objects import device_claim, pod
from tests.kube.programs import NODE_NAME, kubeconfig

IMAGE: Final = "moiety.test/worker:1"
DRIVER: Final = "gpu.moiety.dev"
RESOURCE: Final = "moiety.dev/gpu-percent"
MIB: Final = 1 << 20
GPU: Final = "A100-80:memory=128MiB,link=4GB/s"
DIRECTORY: Final = Path("/run/moiety")
RIGHT: Final = "0 words wrong\n"
CHECK_EVERY: Final = 64
"""rounds, so that little is left to check at the end"""
LONG: Final = 1_000_000
"""rounds: until it is told to stop"""
PROGRAMS: Final = ("agent", "node", "webhook")
SYSTEM: Final = "moiety-system"
ROOT: Final = Path(__file__).resolve().parents[2]
PROCESSES: Final = ("DaemonSet", "Deployment", "PodDisruptionBudget")
"""what of deploy/ is played by processes of the node here, with the same accounts"""
HOOK_PORT: Final = 9443


def work(mebibytes: int, rounds: int, *, gpu_ms: int = 20, seed: int = 7) -> list[str]:
    """The worker's command line; SIGUSR1 has it stop after the round that it is in."""
    numbers = (mebibytes * MIB, rounds, gpu_ms, 2, seed, CHECK_EVERY)
    return ["/app/worker", "/app/kernels.elf", *map(str, numbers)]


def claim(
    name: str,
    namespace: str,
    *,
    compute: int,
    memory: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A claim to `compute` percent of a GPU, of which `memory` stays on it."""
    requests = {"compute": str(compute)} | ({"memory": memory} if memory else {})
    if config is None:
        return device_claim(name, namespace, DRIVER, requests)
    kind = {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig"}
    opaque = {"driver": DRIVER, "parameters": {**kind, **config}}
    return device_claim(name, namespace, DRIVER, requests, config=[{"opaque": opaque}])


def claimant(name: str, namespace: str, *command: str, claims: str = "") -> dict[str, Any]:
    """A pod that has the claim of its own name, or the one that `claims` names."""
    part = {"name": "gpu", "resourceClaimName": claims or name}
    made = pod(name, *command, namespace=namespace, resourceClaims=[part])
    made["spec"]["containers"][0] |= {"image": IMAGE, "resources": {"claims": [{"name": "gpu"}]}}
    return made


def asking(
    name: str,
    namespace: str,
    *command: str,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A pod that says in words what it wants."""
    made = pod(name, *command, namespace=namespace)
    made["metadata"] |= {"annotations": dict(annotations or {}), "labels": dict(labels or {})}
    made["spec"]["containers"][0] |= {"image": IMAGE, "resources": {"limits": dict(limits or {})}}
    return made


def endpoints() -> dict[str, Any]:
    """Where the webhook's service leads: a process of the node."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "moiety-webhook-bed",
            "namespace": SYSTEM,
            "labels": {"kubernetes.io/service-name": "moiety-webhook"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [NODE], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": HOOK_PORT, "protocol": "TCP"}],
    }


class Sharing:
    """It, as processes of the node that tests stop and start."""

    def __init__(self, bed: Bed, native: Path, gpus: str = GPU) -> None:
        self.bed = bed
        self.native = native
        self.env = {
            "MOIETY_CONFIG": "",
            "MOIETY_DIR": str(DIRECTORY),
            "MOIETY_NATIVE": str(native),
            "MOIETY_SIMGPU": gpus,
            "MOIETY_SIMGPU_STATE": str(DIRECTORY / "gpu"),
            "PYTHONUNBUFFERED": "1",
        }
        self.options: tuple[str, ...] = ()
        self.agent_options: tuple[str, ...] = ()
        self.installed: list[dict[str, Any]] = []

    # Objects

    def install(self, overlay: str) -> None:
        """The objects of `deploy/overlays/OVERLAY`; processes get the accounts in there."""
        bed = self.bed
        read = ("kubectl", "apply", "-k", str(ROOT / "deploy" / "overlays" / overlay))
        listed = json.loads(bed.must(*read, "--dry-run=client", "-o", "json"))["items"]
        self.installed = [each for each in listed if each["kind"] not in PROCESSES]
        for each in self.installed:
            if each["kind"] == "Service":  # what is behind it has no labels here
                del each["spec"]["selector"]
        bed.apply(*(each for each in self.installed if each["kind"] == "Namespace"))
        bed.apply(*self.installed, endpoints())
        for account, more in (
            ("node", ("--bound-object-kind=Node", f"--bound-object-name={NODE_NAME}")),
            ("webhook", ()),
        ):
            make = ("create", "token", f"moiety-{account}", "-n", SYSTEM, "--duration=24h")
            known = kubeconfig(bed.folder, account)
            known["users"][0]["user"]["token"] = bed.kubectl(*make, *more).strip()
            self.account(account).write_text(json.dumps(known))

    def allow(self, **texts: str | None) -> None:
        """Allow namespaces what these texts say, by namespace; None: as by default.

        Keywords have _ for -, and `everyone` stands for all namespaces without a text.
        """
        mark = secrets.token_hex(4)
        data = {
            "_defaults" if key == "everyone" else key.replace("_", "-"): text
            for key, text in texts.items()
        }
        change = json.dumps({"data": {**data, "default": f"{mark}: 1"}})
        self.bed.kubectl(
            *("patch", "configmap", "moiety-namespaces", "-n", SYSTEM),
            *("--type=merge", "-p", change),
        )
        probe = asking("probe", "default", annotations={"moiety.dev/gpu": "0.1"})
        self.bed.until(lambda: mark in self.refusal(probe), "the webhook has read the rules")

    def account(self, name: str) -> Path:
        """How a process with that account reaches the API server."""
        return self.bed.folder / f"moiety-{name}.kubeconfig"

    def uninstall(self) -> None:
        """Stop all of it, and remove the objects."""
        self.stop()
        listed = {"apiVersion": "v1", "kind": "List", "items": self.installed}
        remove = ("delete", "--ignore-not-found", "-f", "-")
        self.bed.kubectl(*remove, stdin=json.dumps(listed))
        self.bed.call("kubectl", "delete", "resourceslices", "--all")

    # Programs

    def start_agent(self, *options: str) -> None:
        """An agent, ready to serve."""
        self.agent_options = options or self.agent_options
        command = [sys.executable, "-m", "moiety.agent", "--idle-exit", "0", "--turn-min", "20ms"]
        command += self.agent_options
        self.bed.start("agent", command, env=self.env)

        def answers() -> bool:
            self.bed.must_run("agent")
            return self.cli("agent", "status") is not None

        self.bed.until(answers, "the agent answers")

    def start_node(self, *options: str) -> None:
        """`moiety kube node`, known to the kubelet."""
        self.options = options or self.options
        command = [sys.executable, "-m", "moiety", "kube", "node", "--node", NODE_NAME]
        command += ["--kubeconfig", str(self.account("node")), *self.options]
        self.bed.start("node", command, env=self.env)

    def start_webhook(self) -> None:
        """`moiety kube webhook`, and the API server asks it."""
        command = [sys.executable, "-m", "moiety", "kube", "webhook", "--host", NODE]
        command += ["--port", str(HOOK_PORT), "--kubeconfig", str(self.account("webhook"))]
        command += self.bed.client_ca()
        self.bed.start("webhook", command, env=self.env)
        probe = pod("probe", "true", namespace="default")
        probe["metadata"]["annotations"] = {"moiety.dev/gpu": "nonsense"}

        def answers() -> bool:
            self.bed.must_run("webhook")
            return "nonsense" in self.refusal(probe)

        self.bed.until(answers, "the webhook answers")

    def refusal(self, *objects: Mapping[str, Any]) -> str:
        """What `kubectl apply` prints where it refuses; empty: it would not."""
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        done = self.bed.call("kubectl", "apply", "--dry-run=server", "-f", "-", stdin=listed)
        return done.stderr if done.returncode else ""

    def wait_until_published(self, count: int = 1) -> None:
        """Until the scheduler can see the GPUs, and the kubelet the driver."""

        def is_there() -> bool:
            self.bed.must_run("node")
            return len(self.devices()) == count

        self.bed.until(is_there, "the GPUs are in a slice")

    def restart(self, name: str, number: int = signal.SIGKILL) -> None:
        """Kill agent or node, and start it."""
        self.bed.kill(name, number)
        {"agent": self.start_agent, "node": self.start_node, "webhook": self.start_webhook}[name]()

    def stop(self) -> None:
        """End both."""
        for name in reversed(PROGRAMS):
            self.bed.kill(name, signal.SIGTERM)

    def import_worker(self) -> None:
        """Give the node an image with the C library, the worker and its kernels."""
        with tempfile.TemporaryDirectory(dir=self.bed.folder) as name:
            files = with_worker(of_host(Path(name) / "root"), self.native)
            paths = {str(p.relative_to(files)): p for p in sorted(files.rglob("*")) if p.is_file()}
            layers = [images.busybox(), images.layer(paths)]
            out = Path(name) / "worker.tar"
            self.bed.import_image(images.write(out, IMAGE, layers, ("/bin/sh",)))

    # What there is

    def cli(self, *arguments: str) -> str | None:
        """What a `moiety` command prints on the node; None: it failed."""
        bed_env, self.bed.env = self.bed.env, {**self.bed.env, **self.env}
        try:
            done = self.bed.call(sys.executable, "-m", "moiety", *arguments)
        finally:
            self.bed.env = bed_env
        return done.stdout if done.returncode == 0 else None

    def kubectl_moiety(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What `kubectl moiety` does as the cluster's administrator."""
        start = "from moiety.cli.kubectl import main; main()"
        return self.bed.call(sys.executable, "-c", start, *arguments)

    def json(self, *arguments: str) -> Any:
        """The same of a command that succeeds, with `-o json`."""
        said = self.cli(*arguments, "-o", "json")
        assert said is not None, arguments
        return json.loads(said)

    def devices(self) -> list[dict[str, Any]]:
        """What slices offer."""
        listed = self.bed.get("resourceslices")["items"]
        mine = [each["spec"] for each in listed if each["spec"]["driver"] == DRIVER]
        return [device for spec in mine for device in spec.get("devices", [])]

    def shares(self) -> dict[str, Any]:
        """What the agent knows of pods, by name."""
        return {row["name"]: row for row in self.json("container", "ls")}

    def tenants(self) -> list[dict[str, Any]]:
        """The programs that are on a GPU."""
        return [row for row in self.json("ps") if row["gpu"] is not None]

    def evicted(self) -> set[int]:
        """Those of them that had to give way, by process id."""
        told = [json.loads(line) for line in (self.cli("events", "-o", "json") or "").splitlines()]
        gone = {each["pid"] for each in told if each["reason"] == "Evicted"}
        return gone & {row["pid"] for row in self.tenants()}

    def leavings(self) -> dict[str, Any]:
        """Whatever pods have now: shares, runtime specifications and what the book says."""
        book = Path("/var/lib/moiety/kube/given.json")
        given = json.loads(book.read_text()) if book.exists() else {}
        found = {
            "shares": sorted(self.shares()),
            "specifications": sorted(str(path) for path in Path("/run/cdi").glob("moiety-*")),
            "book": sorted(entry["name"] for entry in given.get("given", ())),
        }
        return {key: value for key, value in found.items() if value}

    # Pods

    def phase(self, namespace: str, name: str) -> str:
        """Of a pod."""
        return str(self.bed.get("pod", name, "-n", namespace)["status"].get("phase"))

    def until_phase(self, namespace: str, name: str, *wanted: str) -> None:
        """Wait for one of these phases; the error shows what the pod's events say."""
        try:
            self.bed.until(
                lambda: self.phase(namespace, name) in wanted, f"{name} is {' or '.join(wanted)}"
            )
        except AssertionError as error:
            said = self.bed.kubectl("describe", "pod", name, "-n", namespace)
            raise AssertionError(f"{error}\n{said}") from None

    def until_all_gave_way(self, namespace: str, *names: str) -> None:
        """Wait until these pods run, and each was moved out once: they take turns."""
        for name in names:
            self.until_phase(namespace, name, "Running")
        self.bed.until(lambda: len(self.evicted()) == len(names), "each had to give way")

    def logs(self, namespace: str, name: str) -> str:
        """What the pod's program printed."""
        return self.bed.kubectl("logs", name, "-n", namespace)

    def ended(self, namespace: str, name: str) -> tuple[str, int]:
        """What a pod printed, when it has ended, and its exit code."""
        self.until_phase(namespace, name, "Succeeded", "Failed")
        (status,) = self.bed.get("pod", name, "-n", namespace)["status"]["containerStatuses"]
        return self.logs(namespace, name), int(status["state"]["terminated"]["exitCode"])

    def finish(self, namespace: str, name: str) -> None:
        """Have the worker of a pod stop after its round, and check what it computed."""
        self.bed.kubectl("exec", name, "-n", namespace, "--", "kill", "-USR1", "1")
        said, code = self.ended(namespace, name)
        # Before that may stand that an agent was away, where a test killed one.
        assert (said.endswith(RIGHT), code) == (True, 0), (said, code)

    def remove_pods(self, namespace: str) -> None:
        """Delete pods and claims; when they are gone, nothing of them is left on the node."""
        self.bed.kubectl("delete", "pods,resourceclaims", "--all", "-n", namespace, "--wait=true")
        self.wait_until_nothing_is_left()

    def wait_until_nothing_is_left(self) -> None:
        """Of pods that are gone."""
        try:
            self.bed.until(lambda: not self.leavings(), "nothing is left of the pods")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.leavings()}") from None

    def reasons(self, namespace: str) -> set[str]:
        """The reasons of events in a namespace."""
        return {each["reason"] for each in self.bed.get("events", "-n", namespace)["items"]}
