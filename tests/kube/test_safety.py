"""What a pod may not: take what another has, by annotations, by folders of the node, by claims."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moiety.model.errors import NotAllowed
from moiety.testing.kubelet import Kubelet
from tests.kube.bed import Bed
from tests.kube.objects import mount, pod, set_to
from tests.kube.programs import NODE_NAME
from tests.kube.sharing import (
    DIRECTORY,
    DRIVER,
    GPU,
    IMAGE,
    LONG,
    Sharing,
    asking,
    claim,
    work,
)

HALF = {"moiety.dev/gpu": "0.5"}
LARGE = json.dumps(
    {
        "main": {
            "apiVersion": "resource.moiety.dev/v1alpha1",
            "kind": "ShareConfig",
            "gpu": {"request": "1"},
        }
    }
)


pytestmark = pytest.mark.usefixtures("nothing_stays")


def victim(bed: Bed, sharing: Sharing, namespace: str) -> dict[str, Any]:
    """A pod that has half of the GPU, and what the agent knows of its share."""
    bed.apply(asking("victim", namespace, *work(8, LONG), annotations=HALF))
    sharing.until_phase(namespace, "victim", "Running")
    bed.until(lambda: len(sharing.tenants()) == 1, "it is on the GPU")
    (share,) = sharing.shares().values()
    found: dict[str, Any] = share
    return found


@pytest.fixture
def no_webhook(bed: Bed, sharing: Sharing, namespace: str) -> Iterator[None]:
    """A pod `shared` runs, and the webhook is away."""
    bed.apply(asking("shared", namespace, *work(8, LONG), annotations=HALF))
    sharing.until_phase(namespace, "shared", "Running")
    bed.kill("webhook", signal.SIGTERM)
    yield
    sharing.start_webhook()


def refusals(bed: Bed, namespace: str, name: str) -> list[str]:
    """Events that say what a pod may not."""
    selector = f"regarding.name={name},reason=Refused"
    listed = ("events.v1.events.k8s.io", "-n", namespace, "--field-selector", selector)
    return [each["note"] for each in bed.get(*listed)["items"]]


@pytest.mark.parametrize(
    "forged", ["moiety.dev/asked", "moiety.dev/resized"], ids=["asked", "resized"]
)
@pytest.mark.parametrize("beside", [HALF, {}], ids=["beside a wish", "alone"])
def test_a_pod_cannot_write_what_only_moiety_writes(
    sharing: Sharing, namespace: str, forged: str, beside: dict[str, str]
) -> None:
    made = asking("forger", namespace, "true", annotations={**beside, forged: LARGE})
    assert "is written by moiety only" in sharing.refusal(made)


def test_a_label_of_ours_gives_nothing(bed: Bed, sharing: Sharing, namespace: str) -> None:
    label = {"moiety.dev/shared": "claim"}
    bed.apply(asking("forger", namespace, "/bin/ls", "/opt/moiety", labels=label))

    assert sharing.ended(namespace, "forger")[1] != 0  # there is no such folder
    assert sharing.shares() == {}


def test_what_is_written_on_a_running_pod_later_gives_nothing(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    sharing.allow(**{namespace: "resize: true\npriority: high"})
    victim(bed, sharing, namespace)
    change = ("-n", namespace, "--overwrite")
    bed.kubectl("label", "pod", "victim", *change, "moiety.dev/shared=units")
    notes = ("moiety.dev/resized=gpu=1", "moiety.dev/gpu=1")
    bed.kubectl("annotate", "pod", "victim", *change, *notes)

    # The node has seen these when it has done what is written after them.
    bed.kubectl("annotate", "pod", "victim", *change, "moiety.dev/resize=priority=high")

    selector = "regarding.name=victim,reason=Resized"
    answers = ("events.v1.events.k8s.io", "-n", namespace, "--field-selector", selector)
    bed.until(lambda: bool(bed.get(*answers)["items"]), "the node has answered")
    (share,) = (row["share"] for row in sharing.shares().values())
    assert (share["gpu"], share["memory_bytes"]) == (0.5, 0)


@pytest.mark.parametrize("text", [LARGE, None], ids=["changed", "removed"])
@pytest.mark.usefixtures("no_webhook")
def test_what_a_pod_asked_for_is_not_changed_later(
    bed: Bed, sharing: Sharing, namespace: str, text: str | None
) -> None:
    asked = {"moiety.dev/asked": text}
    change = json.dumps({"metadata": {"annotations": asked}})
    patch = ("patch", "pod", "shared", "-n", namespace, "-p", change)
    for part in ((), ("--subresource=status",)):
        assert "is written by moiety only" in bed.call("kubectl", *patch, *part).stderr
    other = ("annotate", "pod", "shared", "-n", namespace, "moiety.dev/gpu=1", "--overwrite")
    bed.kubectl(*other)
    assert sharing.phase(namespace, "shared") == "Running"
    sharing.finish(namespace, "shared")


def mounting(name: str, namespace: str, *command: str, **places: Path) -> dict[str, Any]:
    """A pod that has folders of the node, by the names of folders at its root."""
    made = mount(pod(name, *command, namespace=namespace), **places)
    made["spec"]["containers"][0]["image"] = IMAGE
    return made


def test_a_pod_that_mounts_anothers_socket_is_turned_away(
    bed: Bed, sharing: Sharing, namespace: str, native: Path
) -> None:
    share = victim(bed, sharing, namespace)
    thief = mounting(
        *("thief", namespace, *work(8, 1)),
        shim=native,
        driver=native / "simgpu",
        gpu=DIRECTORY / "gpu",
        socket=Path(share["folder"]) / "socket",
    )
    environment = {
        "LD_LIBRARY_PATH": "/driver",
        "LD_PRELOAD": "/shim/libmoiety.so",
        "MOIETY_SOCKET": "/socket/shim.sock",
        "MOIETY_SIMGPU": GPU,
        "MOIETY_SIMGPU_STATE": "/gpu",
    }
    bed.apply(set_to(thief, environment))

    assert sharing.ended(namespace, "thief")[1] == 1, sharing.logs(namespace, "thief")
    bed.until(lambda: bool(refusals(bed, namespace, "thief")), "it is told why")
    assert all("it is another pod's" in note for note in refusals(bed, namespace, "thief"))
    (tenant,) = sharing.tenants()
    assert tenant["labels"]["pod"] == "victim"
    sharing.finish(namespace, "victim")


def test_the_agent_takes_no_commands_from_root_in_a_pod(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    victim(bed, sharing, namespace)
    stop = [sys.executable, "-m", "moiety", "agent", "stop", "--force"]
    root = mounting("root", namespace, "busybox", "chroot", "/host", *stop, host=Path("/"))
    known = {"MOIETY_DIR": str(DIRECTORY), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    bed.apply(set_to(root, known))

    said, code = sharing.ended(namespace, "root")

    assert code == NotAllowed.exit_code, said
    assert "takes no commands from pods" in said
    bed.until(lambda: bool(refusals(bed, namespace, "root")), "it is told on the pod")
    listed = (sharing.cli("events") or "").splitlines()
    assert any("Refused" in line and f"pod {namespace}/root" in line for line in listed), listed
    bed.must_run("agent")
    sharing.finish(namespace, "victim")


@pytest.fixture
def elsewhere(bed: Bed, namespace: str) -> Iterator[str]:
    """Another namespace."""
    name = f"{namespace}-b"
    bed.kubectl("create", "namespace", name)
    bed.until(
        lambda: bed.call("kubectl", "get", "sa", "default", "-n", name).returncode == 0,
        "pods can be made",
    )
    yield name
    bed.kubectl("delete", "pods", "--all", "-n", name, "--wait=true")
    bed.call("kubectl", "delete", "namespace", name, "--wait=false")


def test_a_claim_that_is_reserved_for_nobody_is_not_prepared(
    bed: Bed, sharing: Sharing, namespace: str, elsewhere: str
) -> None:
    bed.apply(claim("free", namespace, compute=50))
    made = bed.get("resourceclaim", "free", "-n", namespace)
    consumed = {"compute": "50", "memory": "0"}
    result = {"request": "gpu", "driver": DRIVER, "pool": NODE_NAME, "device": "gpu-0"}
    shared = {"shareID": made["metadata"]["uid"], "consumedCapacity": consumed}
    made["status"] = {"allocation": {"devices": {"results": [result | shared]}}}
    bed.kubectl("replace", "--subresource=status", "-f", "-", stdin=json.dumps(made))
    uid = made["metadata"]["uid"]
    kubelet = Kubelet(Path("/var/lib/kubelet"))
    kubelet.endpoint = kubelet.folder / "plugins" / DRIVER / "dra.sock"

    def error(where: str, name: str, number: str) -> str:
        answer = asyncio.run(kubelet.prepare((where, name, number)))[number]
        return str(answer.error)

    assert "is reserved for no pod" in error(namespace, "free", uid)
    assert "is another one by now" in error(namespace, "free", uid.replace(uid[:8], "00000000"))
    assert "not found" in error(elsewhere, "free", uid)
    assert sharing.shares() == {}
