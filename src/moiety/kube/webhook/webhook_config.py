"""The webhook's settings in the cluster: two ConfigMaps, as texts. Pure.

`moiety-webhook` has the settings, `moiety-sizes` the sizes that pods name in `moiety.dev/template`:
each key a size, each line of its text a word and its value.

    small: |
      gpu: 0.25
      memory: 10Gi
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moiety.kube.cluster_gpus import Fleet
from moiety.kube.dialects import moiety
from moiety.kube.dialects.gpu_limits import KEYS
from moiety.kube.dialects.request import OURS, SPELLINGS, RequestRefused, WebhookConfig
from moiety.kube.model import names, quantity
from moiety.kube.model.key_values import key_values
from moiety.kube.webhook.admission import AllocationMethod, ClusterView
from moiety.kube.webhook.node_capacity import NodeCapacity
from moiety.model.errors import InvalidValue

WORDS: Final = (
    "shares", "spellings", "schedulers", "whole-gpus", "gpu-memory", "gpus-per-node", "resources",
    "metagpu-resources", "metagpu-units",
)  # fmt: skip


class BadSettings(InvalidValue):
    """A ConfigMap that makes no sense, in one sentence; the previous settings stay in force."""


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """The valid content of the ConfigMaps."""

    cluster: ClusterView
    problems: tuple[str, ...] = ()


def read(
    settings: Mapping[str, str],
    sizes: Mapping[str, str],
    fleet: Fleet,
    offered: Mapping[str, int] | None = None,
) -> ParsedConfig:
    """Read both ConfigMaps; invalid lines are left out and reported.

    `offered` is the largest amount of each of moiety's resources that a node has.
    """
    problems = [f"settings: there is no {key!r}" for key in settings if key not in WORDS]
    known: dict[str, Mapping[str, str]] = {}
    for name, text in sizes.items():
        try:
            known[name] = size(name, text)
        except BadSettings as bad:
            problems.append(bad.what)

    def word(key: str, usual: str) -> str:
        return settings.get(key, "").strip() or usual

    def number(key: str, usual: int, *, in_bytes: bool = False) -> int:
        text = word(key, str(usual))
        try:
            found = quantity.parse_bytes(text) if in_bytes else quantity.parse_count(text)
        except quantity.InvalidQuantity as bad:
            problems.append(f"settings: {key}: {bad.what}")
            return usual
        if not found and usual:
            problems.append(f"settings: {key}: 0 makes no sense")
            return usual
        return found

    def choice(key: str, usual: str, choices: tuple[str, ...]) -> str:
        text = word(key, usual)
        if text not in choices:
            problems.append(f"settings: {key}: {text!r} is none of {', '.join(choices)}")
            return usual
        return text

    spellings = tuple(word("spellings", " ".join(OURS)).split())
    problems += [
        f"settings: spellings: there is no {each!r}" for each in spellings if each not in SPELLINGS
    ]
    metagpu = [
        each.partition("=")[::2] for each in word("metagpu-resources", "cnvrg.io/metagpu").split()
    ]
    by = AllocationMethod(choice("shares", "claims", tuple(AllocationMethod)))
    usual = names.GPU if by is AllocationMethod.CLAIMS else names.PERCENT
    config = WebhookConfig(
        spellings=tuple(each for each in SPELLINGS if each in spellings),
        whole_gpus=choice("whole-gpus", "leave", ("leave", "share")) == "share",
        metagpu_resources=dict(metagpu),
        metagpu_units=number("metagpu-units", 100),
        units=(usual, *(each for each in word("resources", "").split() if each not in KEYS)),
        schedulers=tuple(word("schedulers", "").split()),
        sizes=known,
    )
    cluster = ClusterView(
        config=config,
        fleet=fleet,
        by=by,
        gpu_memory_bytes=number("gpu-memory", 0, in_bytes=True),
        nodes=NodeCapacity(
            (offered or {}) if by is AllocationMethod.UNITS else {}, number("gpus-per-node", 0)
        ),
    )
    return ParsedConfig(cluster, tuple(problems))


def size(name: str, text: str) -> dict[str, str]:
    """One size: words of `moiety.dev/` annotations without that prefix. Raises BadSettings."""
    try:
        found = dict(key_values(text))
    except InvalidValue as bad:
        raise BadSettings(f"size {name}: {bad.what}") from None
    for key in found:
        if key not in moiety.IN_SIZES:
            raise BadSettings(
                f"size {name}: there is no {key!r}; there are {', '.join(moiety.IN_SIZES)}"
            )
    try:
        moiety.gpu_request_of({f"moiety.dev/{key}": value for key, value in found.items()})
    except RequestRefused as no:
        raise BadSettings(f"size {name}: {no.what}") from None
    if not found.keys() & {"gpu", "memory"}:
        raise BadSettings(f"size {name}: it says neither gpu nor memory")
    return found
