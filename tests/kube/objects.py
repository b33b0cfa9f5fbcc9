"""Objects of Kubernetes that several tests make."""

from __future__ import annotations

from typing import Any

from tests.kube import images


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
