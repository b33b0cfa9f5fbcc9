"""The registration of the webhook: for which objects the API server asks it, and when. Pure.

Its two configurations are in deploy/; a running webhook puts its certificate into them, and the
names of resources that its settings add. A test compares both.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Any, Final

from moiety.kube.client import Resource
from moiety.kube.dialects import hami, kai, kubeshare, nvshare
from moiety.kube.dialects.request import SPELLINGS, WebhookConfig
from moiety.kube.model import names, share_config

MUTATING: Final = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration", False,
)  # fmt: skip
VALIDATING: Final = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration", False,
)  # fmt: skip
NAME: Final = "moiety"
SERVICE: Final = "moiety-webhook"
PODS_HOOK: Final = "pods.moiety.dev"
DIALECTS_HOOK: Final = "dialects.moiety.dev"
"""Pods in namespaces that opted in to dialects which the settings leave out."""
RESIZES_HOOK: Final = "resizes.moiety.dev"
CLAIMS_HOOK: Final = "claims.moiety.dev"
NOT_IN: Final = ("kube-system", "kube-node-lease")
"""Namespaces whose pods moiety leaves alone, beside its own."""


def left_alone(namespace: str) -> tuple[str, ...]:
    """The namespaces of which the API server asks nothing; `namespace` is the webhook's own."""
    return (*NOT_IN, namespace)


def match_expression(config: WebhookConfig) -> str:
    """A CEL expression: whether a pod asks for anything that the webhook reads everywhere.

    It looks at names only and cannot fail, so that other pods never depend on the webhook.
    """
    return _names_any({"moiety", *config.spellings}, config)


def _names_any(spellings: Collection[str], config: WebhookConfig) -> str:
    """A CEL expression: whether a pod has a name of one of these dialects."""
    resources = list(hami.PARTS) if "hami" in spellings else []
    if "hami" in spellings and config.whole_gpus:
        resources.append(hami.WHOLE)
    if "metagpu" in spellings:
        resources += config.metagpu_resources
    ours = [names.PREFIX] if "moiety" in spellings else []
    theirs = [kubeshare.PREFIX] if "kubeshare" in spellings else []
    limits = _key(resources, ([nvshare.PREFIX] if "nvshare" in spellings else []) + ours)
    notes = _key(kai.KEYS if "kai" in spellings else (), theirs + ours)
    found = []
    if notes:
        found.append(
            f"(has(object.metadata.annotations) && object.metadata.annotations.exists(k, {notes}))"
        )
    if labels := _key((), theirs):
        found.append(f"(has(object.metadata.labels) && object.metadata.labels.exists(k, {labels}))")
    if limits:
        has = (
            f"has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(k, {limits})"
        )
        found.append(f"object.spec.containers.exists(c, {has})")
        found.append(
            f"(has(object.spec.initContainers) && object.spec.initContainers.exists(c, {has}))"
        )
    return " || ".join(found) or "false"


def _key(listed: Collection[str], prefixes: Collection[str]) -> str:
    """A CEL expression about a key k: whether it is listed or has one of the prefixes."""
    found = [f"k in {_list(listed)}"] if listed else []
    return " || ".join([*found, *(f"k.startsWith('{each}')" for each in prefixes)])


def mutating(
    config: WebhookConfig, trusted: bytes = b"", namespace: str = names.NAMESPACE
) -> dict[str, Any]:
    """The configuration for new pods."""
    hook = _hook(
        PODS_HOOK,
        "/mutate",
        [_rule("", "v1", ["pods"], ["CREATE"])],
        {"name": "asks-for-a-share", "expression": match_expression(config)},
        trusted,
        namespace,
    )
    # Without an answer, such a pod would run without its GPU, or wait for a resource for ever.
    hooks = [hook, _dialects_hook(config, trusted, namespace)]
    for each in hooks:
        each |= {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "sideEffects": "NoneOnDryRun",
        }
    return _configuration(MUTATING, hooks)


def _dialects_hook(config: WebhookConfig, trusted: bytes, namespace: str) -> dict[str, Any]:
    """For dialects that are read only in namespaces that opted in; no pod is in both hooks."""
    others = [each for each in SPELLINGS if each not in ("moiety", *config.spellings)]
    hook = _hook(
        DIALECTS_HOOK,
        "/mutate",
        [_rule("", "v1", ["pods"], ["CREATE"])],
        {"name": "asks-in-another-dialect", "expression": _names_any(others, config)},
        trusted,
        namespace,
    )
    hook["matchConditions"].append(
        {"name": "asks-in-no-other-way", "expression": f"!({match_expression(config)})"}
    )
    chosen = {"key": names.DIALECTS, "operator": "Exists"}
    hook["namespaceSelector"]["matchExpressions"].append(chosen)
    return hook


def validating(trusted: bytes = b"", namespace: str = names.NAMESPACE) -> dict[str, Any]:
    """The configuration for changes of pods, and for claims."""
    resize = f"has(object.metadata.annotations) && '{names.RESIZE}' in object.metadata.annotations"
    template = f"has(object.spec.spec) ? {_ours('object.spec.spec')} : {_ours('object.spec')}"
    hooks = [
        _hook(
            RESIZES_HOOK,
            "/validate",
            [_rule("", "v1", ["pods"], ["UPDATE"])],
            {"name": "resizes", "expression": resize},
            trusted,
            namespace,
        ),
        _hook(
            CLAIMS_HOOK,
            "/validate",
            [
                _rule(
                    "resource.k8s.io",
                    "v1",
                    ["resourceclaims", "resourceclaimtemplates"],
                    ["CREATE", "UPDATE"],
                )
            ],
            {"name": "is-for-a-share", "expression": template},
            trusted,
            namespace,
        ),
    ]
    # The node finds these errors, too, and writes an Event of the pod.
    for hook in hooks:
        hook |= {"failurePolicy": "Ignore", "sideEffects": "None"}
    return _configuration(VALIDATING, hooks)


def _ours(spec: str) -> str:
    """A CEL expression: whether the spec of a claim has parameters or a class of moiety's."""
    driver = share_config.DRIVER
    of_class = f"deviceClassName == '{driver}'"
    config = f"{spec}.devices.config.exists(c, has(c.opaque) && c.opaque.driver == '{driver}')"
    requests = (
        f"{spec}.devices.requests.exists(r, (has(r.exactly) && r.exactly.{of_class}) || "
        f"(has(r.firstAvailable) && r.firstAvailable.exists(f, f.{of_class})))"
    )
    return (
        f"(has({spec}.devices) && ((has({spec}.devices.config) && {config}) || "
        f"(has({spec}.devices.requests) && {requests})))"
    )


def _configuration(resource: Resource, hooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": NAME},
        "webhooks": hooks,
    }


def _hook(
    name: str,
    path: str,
    rules: list[dict[str, Any]],
    condition: dict[str, str],
    trusted: bytes,
    namespace: str,
) -> dict[str, Any]:
    client: dict[str, Any] = {
        "service": {"namespace": namespace, "name": SERVICE, "path": path, "port": 443}
    }
    if trusted:
        client["caBundle"] = base64.b64encode(trusted).decode()
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "rules": rules,
        "matchPolicy": "Equivalent",
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": list(left_alone(namespace)),
                }
            ]
        },
        "objectSelector": {},
        "matchConditions": [condition],
        "timeoutSeconds": 10,
    }


def _rule(group: str, version: str, plural: list[str], operations: list[str]) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": plural,
        "operations": operations,
        "scope": "Namespaced",
    }


def _list(found: Any) -> str:
    return "[" + ", ".join(f"'{each}'" for each in found) + "]"
