"""The pods of this node, as far as shares need them: names, claims and wishes.

A watch keeps them up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moiety.kube.client import PODS, ApiClient, Object
from moiety.kube.model import names
from moiety.kube.model.pod_spec import ENDED, containers

KEPT: Final = (names.RESIZE, names.ASKED)


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod."""

    namespace: str
    name: str
    uid: str
    notes: Mapping[str, str]
    """Its annotations that moiety reads."""
    users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The containers by claim and request (claim/request; claim/ for the whole claim)."""
    has_ended: bool = False
    """Whether its containers will not run again."""

    @property
    def claims(self) -> set[str]:
        """The names of the claims that it uses."""
        return {key.partition("/")[0] for key in self.users}

    def containers_of(self, claim: str, request: str) -> tuple[str, ...]:
        """The containers that use one request of a claim."""
        return self.users.get(f"{claim}/{request}", ()) + self.users.get(f"{claim}/", ())


def pod_of(found: Object) -> Pod:
    """The pod of an object of Kubernetes."""
    told = found["metadata"]
    spec, status = found.get("spec") or {}, found.get("status") or {}
    made = {
        each["name"]: each.get("resourceClaimName")
        for each in status.get("resourceClaimStatuses") or []
    }
    claims = {
        each["name"]: each.get("resourceClaimName") or made.get(each["name"])
        for each in spec.get("resourceClaims") or []
    }
    users: dict[str, tuple[str, ...]] = {}
    for container in containers(found):
        for used in (container.get("resources") or {}).get("claims") or []:
            if claim := claims.get(used["name"]):
                _add(users, f"{claim}/{used.get('request') or ''}", container["name"])
    extended = status.get("extendedResourceClaimStatus") or {}
    for mapping in extended.get("requestMappings") or []:
        key = f"{extended['resourceClaimName']}/{mapping['requestName']}"
        _add(users, key, mapping["containerName"])
    notes = told.get("annotations") or {}
    return Pod(
        told.get("namespace", ""),
        told["name"],
        told["uid"],
        {key: notes[key] for key in KEPT if key in notes},
        users,
        status.get("phase") in ENDED,
    )


def _add(users: dict[str, tuple[str, ...]], key: str, container: str) -> None:
    users[key] = (*users.get(key, ()), container)


class Pods:
    """The pods of one node."""

    def __init__(self, client: ApiClient, node: str, on_change: Callable[[Pod], None]) -> None:
        self._client = client
        self._node = node
        self._on_change = on_change
        self._watched: dict[str, Object] = {}
        self.by_uid: dict[str, Pod] = {}
        self.known = False
        """True after every pod was seen once."""

    async def follow(self) -> None:
        """Keep the pods up to date, for ever; raises ApiError if the server forbids it."""
        selector = f"spec.nodeName={self._node}"
        async for change in self._client.watch(PODS, known=self._watched, field_selector=selector):
            if change.kind == "SYNCED":
                self.known = True
                continue
            pod = pod_of(change.object)
            if change.kind == "DELETED":
                self.by_uid.pop(pod.uid, None)
            elif self.by_uid.get(pod.uid) != pod:
                self.by_uid[pod.uid] = pod
                self._on_change(pod)

    def names(self) -> dict[str, str]:
        """namespace/name of all pods, by UID."""
        return {uid: f"{pod.namespace}/{pod.name}" for uid, pod in self.by_uid.items()}

    def running(self) -> set[str]:
        """The UIDs of the pods that have not ended."""
        return {uid for uid, pod in self.by_uid.items() if not pod.has_ended}

    def named(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name; None if it is unknown."""
        return next(
            (p for p in self.by_uid.values() if (p.namespace, p.name) == (namespace, name)), None
        )


def reference(pod: Pod) -> dict[str, Any]:
    """The reference to a pod in an Event."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
    }
