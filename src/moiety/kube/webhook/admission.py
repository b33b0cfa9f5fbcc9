"""The verdict about one pod: left alone, changed, or refused with a sentence. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec

from moiety.kube import namespace_shares, templates
from moiety.kube.cluster_gpus import Fleet
from moiety.kube.dialects import gpu_limits, resolve
from moiety.kube.dialects.request import (
    GpuRequest,
    Pod,
    RequestRefused,
    WebhookConfig,
    labels,
    notes,
)
from moiety.kube.model import names, share_config
from moiety.kube.model.pod_spec import containers
from moiety.kube.resize import InvalidResize
from moiety.kube.resize import changed as resized
from moiety.kube.resize import parse as parse_resize
from moiety.kube.webhook import node_capacity
from moiety.kube.webhook.node_capacity import NodeCapacity
from moiety.model.share import NOTHING_ASKED, Share

USUAL_SCHEDULER: Final = "default-scheduler"


class AllocationMethod(StrEnum):
    """The way in which pods get their shares in this cluster."""

    CLAIMS = "claims"
    UNITS = "units"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All that an answer depends on, beside the pod."""

    config: WebhookConfig = field(default_factory=WebhookConfig)
    fleet: Fleet = field(default_factory=Fleet)
    by: AllocationMethod = AllocationMethod.CLAIMS
    gpu_memory_bytes: int = 0
    """Memory of each GPU, if units are given and the settings say it; else 0."""
    nodes: NodeCapacity = field(default_factory=NodeCapacity)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer about one object."""

    problem: str = ""
    """Why the object is refused, with what to try; empty: it is admitted."""
    patch: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    templates: tuple[Mapping[str, Any], ...] = ()
    """Templates that have to be in the pod's namespace before the pod."""
    shares: tuple[Share, ...] = ()
    """What the object asks for, a share for each GPU: its namespace may not be allowed it."""
    resizes: bool = False
    """Whether a pod asks for another share than it was made with."""


def admit(pod: Pod, cluster: ClusterView) -> Verdict:
    """The verdict about a new pod."""
    try:
        verdict = _admit(pod, cluster)
    except RequestRefused as no:
        return Verdict(problem=f"moiety: {no.what} ({no.hint})")
    wish = notes(pod).get(names.RESIZE)
    if wish is None:
        return verdict
    try:
        shares = (*verdict.shares, *_classes(parse_resize(wish)))
    except InvalidResize as no:
        return Verdict(problem=f"moiety: {no.what} ({no.hint})")
    return dataclasses.replace(verdict, resizes=True, shares=shares)


def check_resize(new: Pod, old: Pod) -> Verdict:
    """The verdict about a change of a pod: a resize that makes no sense is refused."""
    text = notes(new).get(names.RESIZE)
    if text is None or text == notes(old).get(names.RESIZE):
        return Verdict()
    try:
        parts = parse_resize(text)
    except InvalidResize as no:
        return Verdict(problem=f"moiety: {no.what} ({no.hint})")
    if names.SHARED not in labels(new) and not (new.get("spec") or {}).get("resourceClaims"):
        return Verdict(problem="moiety: the pod has no share that could be resized")
    there = {each["name"] for each in containers(new)}
    for who, _, _ in parts:
        if who and who not in there:
            return Verdict(problem=f"moiety: {names.RESIZE} names {who!r}, which is no container")
    return Verdict(resizes=True, shares=_classes(parts))


def check_claim(spec: Mapping[str, Any]) -> Verdict:
    """The verdict about a claim, or a template of one: moiety's parameters must be a share."""
    for config in ((spec.get("devices") or {}).get("config")) or []:
        opaque = config.get("opaque") or {}
        if opaque.get("driver") != share_config.DRIVER:
            continue
        try:
            share_config.decode(opaque.get("parameters") or {})
        except share_config.InvalidShareConfig as no:
            return Verdict(problem=f"moiety: {no.what} ({no.hint})")
    return Verdict(shares=(*namespace_shares.classes_of(spec), *namespace_shares.of_spec(spec)))


def _classes(parts: list[tuple[str, str, str]]) -> tuple[Share, ...]:
    """The priorities and classes that a resize asks for."""
    words = [(word, text) for _, word, text in parts if word in ("priority", "latency")]
    return tuple(resized(NOTHING_ASKED, [("", word, text)], "") for word, text in words)


def _admit(pod: Pod, cluster: ClusterView) -> Verdict:
    pod_request = resolve.read(pod, cluster.config)
    forged = [key for key in names.OURS if key in notes(pod)]
    if forged:
        raise RequestRefused(
            f"{' and '.join(forged)} is written by moiety only; a copy of a running pod is no "
            "manifest",
            "the manifest that the pod was made from",
        )
    node_capacity.check(pod, pod_request, cluster.config, cluster.fleet, cluster.nodes)
    if pod_request is None:
        return Verdict(shares=tuple(namespace_shares.of_pod_units(pod)))
    spec = pod["spec"]
    made: dict[str, Mapping[str, Any]] = {}
    changed = {
        where: [dict(each) for each in spec.get(where) or []]
        for where in ("initContainers", "containers")
    }
    claims: list[dict[str, str]] = []
    by_name = {each["name"]: each for where in changed.values() for each in where}
    for container in by_name.values():
        container["resources"] = _without(container, pod_request.resources)
    if cluster.by is AllocationMethod.CLAIMS:
        for group, gpu_request in _groups(pod_request):
            found = templates.template(gpu_request, cluster.fleet)
            made[found["metadata"]["name"]] = found
            entry = _free_name(f"moiety-{group[0]}"[:63].rstrip("-"), spec, claims)
            claims.append({"name": entry, "resourceClaimTemplateName": found["metadata"]["name"]})
            for name in group:
                own = by_name[name]["resources"]
                own["claims"] = [*(own.get("claims") or []), {"name": entry}]
    else:
        _one_user_each(pod_request)
        for name, gpu_request in pod_request.by_container.items():
            own = by_name[name]["resources"]
            number = templates.units(gpu_request, cluster.gpu_memory_bytes)
            own["limits"] = {**(own.get("limits") or {}), names.PERCENT: str(number)}
    return Verdict(
        patch=tuple(_patch(pod, pod_request, changed, claims, cluster)),
        warnings=tuple(_warnings(pod, pod_request, cluster.config)),
        templates=tuple(made.values()),
        shares=tuple(_shares(pod_request, cluster)),
    )


def _shares(pod_request: resolve.PodRequest, cluster: ClusterView) -> Iterator[Share]:
    """What the containers of a pod ask for, a share for each GPU."""
    for _, gpu_request in _groups(pod_request):
        if cluster.by is AllocationMethod.CLAIMS:
            largest = max(templates.shares(gpu_request, cluster.fleet), key=lambda each: each[0])
            yield from [largest[1]] * gpu_request.gpus
        else:
            number = templates.units(gpu_request, cluster.gpu_memory_bytes)
            for piece in namespace_shares.of_units(number):
                yield dataclasses.replace(gpu_request.share, gpu=piece.gpu, gpu_limit=1.0)


def _groups(pod_request: resolve.PodRequest) -> list[tuple[list[str], GpuRequest]]:
    """The containers of each share: each container alone, or several that share one."""
    found: list[tuple[list[str], GpuRequest]] = []
    for name, gpu_request in pod_request.by_container.items():
        if name in pod_request.together:
            for group, other in found:
                if other == gpu_request and group[0] in pod_request.together:
                    group.append(name)
                    break
            else:
                found.append(([name], gpu_request))
        else:
            found.append(([name], gpu_request))
    return found


def _one_user_each(pod_request: resolve.PodRequest) -> None:
    if "moiety" in pod_request.spellings and len(pod_request.together) > 1:
        raise RequestRefused(
            f"this cluster gives GPUs in units, which containers do not share: "
            f"{', '.join(sorted(pod_request.together))}",
            f"one container in {names.CONTAINER}, or units in each one's limits",
        )


def _without(container: Mapping[str, Any], gone: frozenset[str]) -> dict[str, Any]:
    own = dict(container.get("resources") or {})
    for part in ("limits", "requests"):
        if part in own:
            own[part] = {k: v for k, v in (own[part] or {}).items() if k not in gone}
            if not own[part]:
                del own[part]
    return own


def _free_name(wanted: str, spec: Mapping[str, Any], ours: list[dict[str, str]]) -> str:
    taken = {each["name"] for each in [*(spec.get("resourceClaims") or []), *ours]}
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted[:60]}-{number}"
    return name


def _patch(
    pod: Pod,
    pod_request: resolve.PodRequest,
    changed: Mapping[str, list[dict[str, Any]]],
    claims: list[dict[str, str]],
    cluster: ClusterView,
) -> list[Mapping[str, Any]]:
    spec = pod["spec"]
    asked = {
        name: share_config.encode(gpu_request.share)
        for name, gpu_request in pod_request.by_container.items()
    }
    text = msgspec.json.encode(asked, order="deterministic").decode()
    kind = "claim" if cluster.by is AllocationMethod.CLAIMS else "units"
    found: list[Mapping[str, Any]] = [
        _add("/metadata/annotations", {**notes(pod), names.ASKED: text}),
        _add("/metadata/labels", {**labels(pod), names.SHARED: kind}),
    ]
    for where, them in changed.items():
        for number, (new, old) in enumerate(zip(them, spec.get(where) or [], strict=True)):
            if new["resources"] != (old.get("resources") or {}):
                found.append(_add(f"/spec/{where}/{number}/resources", new["resources"]))
    if claims:
        found.append(_add("/spec/resourceClaims", [*(spec.get("resourceClaims") or []), *claims]))
    if spec.get("schedulerName") in cluster.config.schedulers:
        found.append(_add("/spec/schedulerName", USUAL_SCHEDULER))
    return found


def _add(path: str, value: Any) -> Mapping[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _warnings(pod: Pod, pod_request: resolve.PodRequest, config: WebhookConfig) -> list[str]:
    found = gpu_limits.warnings(pod, config)
    spec = pod["spec"]
    regular = [each["name"] for each in spec.get("containers") or []]
    if "moiety" in pod_request.spellings and names.CONTAINER not in notes(pod) and len(regular) > 1:
        who = ", ".join(pod_request.by_container)
        found.append(f"moiety: of {len(regular)} containers, {who} gets the GPU; "
                     f"{names.CONTAINER} names others")  # fmt: skip
    for each in spec.get("initContainers") or []:
        name = each["name"]
        alone = name in pod_request.by_container and name not in pod_request.together
        if alone and each.get("restartPolicy") != "Always":
            found.append(
                f"moiety: init container {name} has a share of its own, held as long as the pod"
            )
    scheduler = spec.get("schedulerName")
    if scheduler in config.schedulers:
        found.append(f"moiety: {scheduler} is not waited for: {USUAL_SCHEDULER}")
    elif scheduler in resolve.SCHEDULERS:
        found.append(
            f"moiety: schedulerName: {scheduler} is left as it is; without that scheduler the pod "
            f"waits ({USUAL_SCHEDULER} places shares)"
        )
    return found
