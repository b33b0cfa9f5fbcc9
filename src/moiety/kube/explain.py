"""Why a pod does not run, or how it does, in one sentence. Pure.

The sentence has the scheduler's reason, the request, the free GPUs, and what to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moiety.kube import cluster_report, node_units
from moiety.kube.dialects import resolve
from moiety.kube.dialects.request import RequestRefused, WebhookConfig
from moiety.kube.model import names
from moiety.kube.model.pod_spec import ENDED
from moiety.kube.model.quantity import WHOLE
from moiety.model.format import format_bytes, format_fraction

Object = Mapping[str, Any]
PREPARING: Final = ("FailedPrepareDynamicResources", "UnexpectedAdmissionError", "Refused")
CREATING: Final = ("FailedResourceClaimCreation",)


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """The explanation of one pod."""

    pod: str
    phase: str
    sentence: str
    hint: str = ""
    scheduler: str = ""
    """The scheduler's own words."""
    left_out: tuple[str, ...] = ()
    """What this user's rights do not let the explanation say."""


def explain(
    pod: Object,
    seen: cluster_report.ClusterObjects,
    events: Sequence[Object] = (),
    config: WebhookConfig | None = None,
) -> PodExplanation:
    """Explain the present state of a pod; `events` are the pod's, the oldest first."""
    name = f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
    status = pod.get("status") or {}
    phase = status.get("phase", "Pending")
    scheduler = _scheduler(status)
    sentence, hint = _said(pod, seen, events, config or WebhookConfig(), phase, scheduler)
    left_out = tuple(text for what, text in seen.left_out.items() if what != "pods")
    return PodExplanation(name, phase, f"{name} {sentence}", hint, scheduler, left_out)


def _said(
    pod: Object,
    seen: cluster_report.ClusterObjects,
    events: Sequence[Object],
    config: WebhookConfig,
    phase: str,
    scheduler: str,
) -> tuple[str, str]:
    claims = {
        (each["metadata"].get("namespace", "default"), each["metadata"]["name"]): each
        for each in seen.claims
    }
    row = cluster_report.pod_row(pod, claims, seen.processes)
    lacking = [
        name for space, name in cluster_report.claim_keys(pod) if (space, name) not in claims
    ]
    is_known = "claims" not in seen.left_out
    if lacking and is_known and phase not in ENDED:
        return f"waits for claim {lacking[0]}, which does not exist", "kubectl get resourceclaims"
    if row is None:
        return _without(pod, config)
    asked = "; ".join(f"{who}: {what}" for who, what in row.asked.items())
    if phase in ENDED:
        return f"has ended ({phase})", ""
    if phase == "Running":
        on = f" of {', '.join(row.gpus)}" if row.gpus else ""
        got = "" if row.received is None else f", and received {format_fraction(row.received)}"
        bad = _container(pod)
        return f"runs on {row.node} with its share{on} ({asked}){got}{bad}", ""
    if row.node:
        return _starting(pod, events, row)
    if failed := _last(events, CREATING):
        return f"has no claim yet: {failed}", "kubectl get resourceclaimtemplates"
    ours = [claims[key] for key in cluster_report.claim_keys(pod) if key in claims]
    has_units = not ours and bool(cluster_report.units_of(pod))
    if has_units and not seen.slices:
        room = node_units.room(pod, seen.units)
    else:
        room = _room(ours, cluster_report.gpus(seen), is_whole=has_units)
    theirs = f"; the scheduler says: {scheduler}" if scheduler else ""
    if "gpus" in seen.left_out:
        room = "which GPUs have room is not yours to see"
    elif "units" in seen.left_out and has_units:
        room = "which nodes have units left is not yours to see"
    elif not ours and not row.claims and not has_units:
        return f"waits for its claim to be made ({asked}){theirs}", "kubectl get resourceclaims"
    return f"waits for a GPU ({asked}): {room}{theirs}", "kubectl moiety status"


def _without(pod: Object, config: WebhookConfig) -> tuple[str, str]:
    """Why a pod has no share: it asks for none, asks wrongly, or the webhook never saw it."""
    try:
        pod_request = resolve.read(pod, config)
    except RequestRefused as no:
        return f"has no share: it asks for one that makes no sense: {no.what}", no.hint
    if pod_request is None:
        return _unread(pod, config)
    what = "; ".join(
        f"{who}: {gpu_request}" for who, gpu_request in pod_request.by_container.items()
    )
    return (
        f"has no share although it asks for one ({what}): it was made when no webhook was "
        "registered, or in a namespace that is left out",
        "delete it and make it again",
    )


def _unread(pod: Object, config: WebhookConfig) -> tuple[str, str]:
    """That a pod asks for no share, or in dialects that are not read in its namespace."""
    others = resolve.unread(pod, config)
    if not others:
        return "asks for no share of a GPU", "moiety.dev/gpu: '0.5' among its annotations"
    namespace = pod["metadata"].get("namespace", "default")
    return (
        f"has no share: it asks in the words of {' and '.join(others)}, which are not read in "
        f"namespace {namespace}",
        f"an administrator's kubectl label namespace {namespace} "
        f"{names.DIALECTS}={'.'.join(others)}, and the pod again",
    )


def _starting(pod: Object, events: Sequence[Object], row: cluster_report.PodRow) -> tuple[str, str]:
    if failed := _last(events, PREPARING):
        return f"cannot start on {row.node}: {failed}", "kubectl describe pod"
    waiting = _container(pod)
    return f"has its share on {row.node} and is being started{waiting}", "kubectl describe pod"


def _container(pod: Object) -> str:
    status = pod.get("status") or {}
    for each in [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]:
        waiting = (each.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason and reason not in ("ContainerCreating", "PodInitializing"):
            message = waiting.get("message", "")
            return f"; container {each['name']} waits: {reason}{f', {message}' if message else ''}"
    return ""


def _room(
    claims: Sequence[Object],
    rows: Sequence[cluster_report.ClusterGpuRow],
    *,
    is_whole: bool = False,
) -> str:
    """Moiety's reason: why no GPU has room for these claims, or (`is_whole`) for a whole GPU."""
    if not rows:
        return "no node offers GPUs (does moiety-node run on one?)"
    asked = [request for claim in claims for request in cluster_report.requests(claim)]
    wanted = [cluster_report.wants(request) for request in asked]
    if is_whole:  # a resource, which the scheduler makes a claim of when there is room
        wanted = [(WHOLE, 0)]
    if not wanted:
        return "no claim of it is known"
    percent, memory = max(wanted)
    well = [row for row in rows if not row.trouble]
    if not well:
        return f"all {len(rows)} GPUs are unwell ({rows[0].trouble})"
    need = f"{percent} %" + (f" and {format_bytes(memory)}" if memory else "")
    if percent > WHOLE or memory > max(row.memory_bytes for row in well):
        return f"{need} of one GPU are wanted, which no GPU has, so it would wait for ever"
    fits = [row for row in well if row.free_percent >= percent and row.free_bytes >= memory]
    if fits:
        return _though_it_fits(asked, fits)
    best = max(well, key=lambda row: (min(row.free_percent, percent), row.free_bytes))
    return (
        f"{need} of one GPU are wanted, and of {len(well)} GPUs the roomiest, {best.device} of "
        f"{best.node}, has {best.free_percent} % and {format_bytes(best.free_bytes)} left"
    )


def _though_it_fits(asked: Sequence[Object], fits: Sequence[cluster_report.ClusterGpuRow]) -> str:
    """Why a pod waits although a GPU has room for the largest of its requests."""
    count = max((int(request.get("count") or 1) for request in asked), default=1)
    on_node = Counter(row.node for row in fits)
    node, most = on_node.most_common(1)[0]
    if count > most:
        return f"{count} GPUs of one node are wanted, and at most {most} have room ({node})"
    chosen = [
        str((each.get("cel") or {}).get("expression", ""))
        for request in asked
        for each in request.get("selectors") or []
    ]
    why = f"its selector takes none ({chosen[0]}), or another resource" if chosen else "a resource"
    return (
        f"{fits[0].device} of {fits[0].node} has room, so something else keeps it: {why} or a "
        "taint of the node"
    )


def _scheduler(status: Object) -> str:
    for each in status.get("conditions") or []:
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return str(each.get("message") or each.get("reason") or "")
    return ""


def _last(events: Sequence[Object], reasons: Sequence[str]) -> str:
    for each in reversed(events):
        if each.get("reason") in reasons:
            return str(each.get("note") or each.get("message") or "")
    return ""
