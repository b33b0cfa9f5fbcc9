"""Looks at a cluster as far as a user's rights go, and says what they leave out."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moiety.kube.client import CLAIMS, NODES, PODS, SLICES, ApiClient, ApiError, Object, Resource
from moiety.kube.cluster_report import ClusterObjects
from moiety.kube.model.share_config import DRIVER
from moiety.kube.node_units import NodeUnits, node_units
from moiety.model.errors import ClusterRefusal

EXEC_S: Final = 15.0
AGENTS: Final = "app.kubernetes.io/name=moiety-node"


@dataclass(slots=True)
class _Look:
    """One look: what it has found, and what it was not allowed to see."""

    client: ApiClient
    namespace: str | None
    """None: all of them."""
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def own(self) -> str:
        """The namespace that is looked at where the rights are for one only."""
        return self.namespace or self.client.access.namespace

    async def pods(self) -> list[Object]:
        """The pods of all namespaces, or else of one; raises ClusterRefusal."""
        try:
            found, _ = await self.client.list(PODS, self.namespace)
        except ApiError as no:
            if not no.is_forbidden:
                raise
            if self.namespace is not None:
                raise _no_pods(no) from None
        else:
            return found
        self.left_out["pods"] = (
            f"only namespace {self.own} is shown: you may not list the pods of all namespaces"
        )
        try:
            found, _ = await self.client.list(PODS, self.own)
        except ApiError as refused:
            if refused.is_forbidden:
                raise _no_pods(refused) from None
            raise
        return found

    async def gpus(self) -> tuple[list[Object], list[Object]]:
        """Slices and claims; no slices where the claims on them are not all known."""
        try:
            slices = await self._listed(SLICES, field_selector=f"spec.driver={DRIVER}")
            claims = await self._listed(CLAIMS)
            if claims is None:
                self.left_out["gpus"] = (
                    "GPUs are not shown: you may not list the ResourceClaims of all namespaces, "
                    "which say what is promised of a GPU"
                )
                claims = await self._listed(CLAIMS, self.own)
        except ApiError as no:
            if not no.is_missing:  # a cluster without that API gives units
                raise
            return [], []
        if slices is None:
            self.left_out["gpus"] = "GPUs are not shown: you may not list ResourceSlices"
        if claims is None:
            self.left_out["claims"] = (
                "which GPU a pod has is not shown: you may not list the ResourceClaims of "
                f"namespace {self.own}"
            )
        return [] if "gpus" in self.left_out else slices or [], claims or []

    async def units(self) -> list[NodeUnits]:
        """What nodes offer as units."""
        nodes = await self._listed(NODES)
        if nodes is None:
            self.left_out["units"] = "units of nodes are not shown: you may not list nodes"
            return []
        return node_units(nodes, await self._listed(PODS))

    async def agents(self, system: str) -> list[Object]:
        """The pods of agents."""
        found = await self._listed(PODS, system, label_selector=AGENTS)
        if found is None:
            self.left_out["received"] = (
                f"RECEIVED and ALLOCATED are not shown: you may not list the pods of {system}"
            )
        return found or []

    async def _listed(
        self, resource: Resource, namespace: str | None = None, **selectors: str
    ) -> list[Object] | None:
        """A list; None if it is forbidden."""
        try:
            found, _ = await self.client.list(resource, namespace, **selectors)
        except ApiError as no:
            if no.is_forbidden:
                return None
            raise
        return found


async def look(
    client: ApiClient, system: str, options: Sequence[str], namespace: str | None = None
) -> ClusterObjects:
    """What a user may see of a cluster; `namespace` None: of all namespaces, if possible.

    `options` are kubectl's that name the cluster and the user. `system` is moiety's namespace.
    Raises ApiError, and ClusterRefusal for a user who may not even list pods of one namespace.
    """
    seen = _Look(client, namespace)
    pods = await seen.pods()
    slices, claims = await seen.gpus()
    units = [] if slices or "gpus" in seen.left_out else await seen.units()
    agents = [
        (each["metadata"]["name"], str((each.get("spec") or {}).get("nodeName", "")))
        for each in await seen.agents(system)
    ]
    answers = await asyncio.gather(*(_processes(name, system, options) for name, _ in agents))
    nodes = zip((node for _, node in agents), answers, strict=True)
    silent = {node: answer for node, answer in nodes if isinstance(answer, str)}
    rows = [row for answer in answers if not isinstance(answer, str) for row in answer]
    return ClusterObjects(slices, claims, pods, rows, silent, seen.left_out, units)


async def _processes(
    pod: str, system: str, options: Sequence[str]
) -> list[Mapping[str, Any]] | str:
    """An agent's programs; or why it did not answer, in words."""
    command = ["kubectl", *options, "exec", "-n", system, pod, "-c", "agent", "--"]
    command += ["moiety", "ps", "-o", "json"]
    try:
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, timeout=EXEC_S, check=True, text=True
        )
        found: list[Mapping[str, Any]] = json.loads(done.stdout) or []
    except subprocess.TimeoutExpired:
        return f"no answer within {EXEC_S:g} s"
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines()
        return said[-1] if said else f"kubectl exec ended with {error.returncode}"
    except OSError as error:
        return f"kubectl cannot be run: {error.strerror}"
    except ValueError:
        return "its answer is not JSON"
    return found


def _no_pods(no: ApiError) -> ClusterRefusal:
    return ClusterRefusal(no.what, "-n NAMESPACE: one in which you may list pods")
