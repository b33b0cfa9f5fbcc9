"""What moiety is on the cluster's node: an agent with simulated GPUs, and `moiety kube node`."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.containers.images import of_host, with_worker
from tests.kube import images
from tests.kube.bed import Bed
from tests.kube.conftest import pod
from tests.kube.programs import NODE_NAME

IMAGE: Final = "moiety.test/worker:1"
DRIVER: Final = "gpu.moiety.dev"
RESOURCE: Final = "moiety.dev/gpu"
MIB: Final = 1 << 20
GPU: Final = "A100-80:memory=128MiB,link=4GB/s"
DIRECTORY: Final = Path("/run/moiety")
RIGHT: Final = "0 words wrong\n"
LONG: Final = 1_000_000
"""rounds: until it is told to stop"""
GONE: Final = ("agent", "node")


def work(mebibytes: int, rounds: int, *, gpu_ms: int = 20, seed: int = 7) -> list[str]:
    """The worker's command line; SIGUSR1 has it stop after the round that it is in."""
    numbers = (mebibytes * MIB, rounds, gpu_ms, 2, seed)
    return ["/app/worker", "/app/kernels.elf", *map(str, numbers)]


def device_class() -> dict[str, Any]:
    """As deploy/ has it."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {
            "extendedResourceName": RESOURCE,
            "selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}],
        },
    }


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
    exactly = {"deviceClassName": DRIVER, "capacity": {"requests": requests}}
    devices: dict[str, Any] = {"requests": [{"name": "gpu", "exactly": exactly}]}
    if config is not None:
        kind = {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig"}
        devices["config"] = [{"opaque": {"driver": DRIVER, "parameters": {**kind, **config}}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": devices},
    }


def claimant(name: str, namespace: str, *command: str, claims: str = "") -> dict[str, Any]:
    """A pod that has the claim of its own name, or the one that `claims` names."""
    part = {"name": "gpu", "resourceClaimName": claims or name}
    made = pod(name, *command, namespace=namespace, resourceClaims=[part])
    made["spec"]["containers"][0] |= {"image": IMAGE, "resources": {"claims": [{"name": "gpu"}]}}
    return made


def units(name: str, namespace: str, count: int, *command: str) -> dict[str, Any]:
    """A pod that asks for so many hundredths of a GPU from a device plugin, or GPUs from DRA."""
    made = pod(name, *command, namespace=namespace)
    limits = {"limits": {RESOURCE: str(count)}}
    made["spec"]["containers"][0] |= {"image": IMAGE, "resources": limits}
    return made


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

    # Programs

    def start_agent(self) -> None:
        """An agent, ready to serve."""
        command = [sys.executable, "-m", "moiety.agent", "--idle-exit", "0", "--turn-min", "20ms"]
        self.bed.start("agent", command, env=self.env)

        def answers() -> bool:
            self.bed.must_run("agent")
            return self.cli("agent", "status") is not None

        self.bed.until(answers, "the agent answers")

    def start_node(self, *options: str) -> None:
        """`moiety kube node`, known to the kubelet."""
        self.options = options or self.options
        command = [sys.executable, "-m", "moiety", "kube", "node", "--node", NODE_NAME]
        command += ["--kubeconfig", str(self.bed.kubeconfig), *self.options]
        self.bed.start("node", command, env=self.env)

    def wait_until_published(self, count: int = 1) -> None:
        """Until the scheduler can see the GPUs, and the kubelet the driver."""

        def is_there() -> bool:
            self.bed.must_run("node")
            return len(self.devices()) == count

        self.bed.until(is_there, "the GPUs are in a slice")

    def restart(self, name: str, number: int = signal.SIGKILL) -> None:
        """Kill agent or node, and start it."""
        self.bed.kill(name, number)
        if name == "agent":
            self.start_agent()
        else:
            self.start_node()

    def stop(self) -> None:
        """End both."""
        for name in reversed(GONE):
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
        assert self.ended(namespace, name) == (RIGHT, 0)

    def reasons(self, namespace: str) -> set[str]:
        """The reasons of events in a namespace."""
        return {each["reason"] for each in self.bed.get("events", "-n", namespace)["items"]}
