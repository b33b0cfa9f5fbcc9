"""Reads and writes reviews of admission (admission.k8s.io/v1). Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from moiety.kube.webhook import admission
from moiety.kube.webhook.admission import ClusterView, Verdict
from moiety.model.errors import InvalidValue

API_VERSION: Final = "admission.k8s.io/v1"
KINDS: Final = {"ResourceClaim": ("spec",), "ResourceClaimTemplate": ("spec", "spec")}


class NoReview(InvalidValue):
    """The request is no review of admission."""


def read(body: bytes) -> Mapping[str, Any]:
    """The request of a review; raises NoReview."""
    try:
        found = msgspec.json.decode(body)
        request = found["request"]
        if not isinstance(request["uid"], str) or not isinstance(request["kind"]["kind"], str):
            raise NoReview("the review has no uid")
    except (msgspec.DecodeError, KeyError, TypeError):
        raise NoReview("this is no AdmissionReview") from None
    known: Mapping[str, Any] = request
    return known


def decide(request: Mapping[str, Any], cluster: ClusterView) -> Verdict:
    """The verdict about the object of a request; raises NoReview if it is malformed."""
    try:
        return _decide(request, cluster)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NoReview(f"the object of the review is none: {error}") from None


def _decide(request: Mapping[str, Any], cluster: ClusterView) -> Verdict:
    kind, new = request["kind"]["kind"], request.get("object") or {}
    if kind == "Pod":
        if request.get("operation") == "CREATE":
            return admission.admit(new, cluster)
        return admission.check_resize(new, request.get("oldObject") or {})
    if kind in KINDS:
        for part in KINDS[kind]:
            new = new.get(part) or {}
        return admission.check_claim(new)
    return Verdict()


def answer(uid: str, verdict: Verdict) -> dict[str, Any]:
    """The review that is sent back."""
    response: dict[str, Any] = {"uid": uid, "allowed": not verdict.problem}
    if verdict.problem:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": verdict.problem}
    elif verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
