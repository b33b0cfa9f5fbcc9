"""Objects of Kubernetes that several tests make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.kube import images

RESOURCES: Final = "resource.k8s.io/v1"


def pod(name: str, *command: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """A pod with one container of busybox that runs `command` once; `spec` adds to the pod's."""
    container = {"name": "main", "image": images.BUSYBOX, "command": list(command)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        | spec,
    }


def mount(made: dict[str, Any], **places: Path) -> dict[str, Any]:
    """The pod, whose container now has folders of the node, by their names at its root."""
    spec = made["spec"]
    (container,) = spec["containers"]
    spec["volumes"] = [
        {"name": key, "hostPath": {"path": str(place)}} for key, place in places.items()
    ]
    container["volumeMounts"] = [{"name": key, "mountPath": f"/{key}"} for key in places]
    return made


def set_to(made: dict[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """The pod, whose container now has these variables."""
    (container,) = made["spec"]["containers"]
    container["env"] = [{"name": key, "value": value} for key, value in variables.items()]
    return made


def device_slice(
    name: str, driver: str, node: str, devices: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """All that a driver offers on a node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": RESOURCES,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices)},
    }


def device_class(driver: str) -> dict[str, Any]:
    """All devices of a driver; it has the driver's name."""
    return {
        "apiVersion": RESOURCES,
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]},
    }


def device_claim(
    name: str, namespace: str, device_class: str, capacity: Mapping[str, str], **more: Any
) -> dict[str, Any]:
    """A claim to parts of one device; `more` are more keys beside its requests."""
    exactly = {"deviceClassName": device_class, "capacity": {"requests": dict(capacity)}}
    return {
        "apiVersion": RESOURCES,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **more}},
    }
