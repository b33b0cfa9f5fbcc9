"""Units of GPUs, for clusters without claims: which units make a share, and which to take. Pure.

Each GPU has the same number of units, each with its own name. The units of one container are a
share of as few GPUs as hold them, the same number on each: 50 of 100 are half of one GPU, 150 are
three quarters of two. The kubelet may hand out other units than the preferred ones; a spread that
is no share is refused.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moiety.kube.model import names
from moiety.kube.resource_slices import NodeGpu
from moiety.model.errors import MoietyError

RESOURCE: Final = names.PERCENT


class BadUnits(MoietyError):
    """These units are no share."""


@dataclass(frozen=True, slots=True)
class UnitName:
    """A resource, and a pattern for the models of its GPUs: with * as in file names."""

    resource: str
    model: str = "*"

    def is_of(self, gpu: NodeGpu) -> bool:
        """Whether this GPU's units belong to the resource."""
        return fnmatch.fnmatch(gpu.card.name.lower(), self.model.lower())


def divide(named: Sequence[UnitName], gpus: Iterable[NodeGpu]) -> dict[str, list[NodeGpu]]:
    """The GPUs of each resource: the first whose pattern fits, else the usual resource."""
    every = [*named, UnitName(RESOURCE)]
    found: dict[str, list[NodeGpu]] = {each.resource: [] for each in every}
    for gpu in sorted(gpus, key=lambda each: each.card.index):
        own = next(each for each in every if each.is_of(gpu))
        found[own.resource].append(gpu)
    return found


def unit(uuid: str, number: int) -> str:
    """The name of one unit; units of earlier versions, which pods still hold, had no letter."""
    return f"{uuid}.p{number:02}"


def uuid_of(name: str) -> str:
    """The GPU of a unit."""
    return name.rpartition(".")[0]


def units_of(gpu: NodeGpu, count: int) -> list[str]:
    """The names of all units of a GPU."""
    return [unit(gpu.card.uuid, number) for number in range(count)]


def parts(names: Collection[str], count: int) -> tuple[list[str], float]:
    """The GPUs (UUIDs) of a container's units, and the part of each; raises BadUnits.

    `count`: units that a GPU has.
    """
    by_gpu: dict[str, int] = {}
    for name in names:
        by_gpu[uuid_of(name)] = by_gpu.get(uuid_of(name), 0) + 1
    if not by_gpu:
        raise BadUnits("no units are asked for", f"limits: {{{RESOURCE}: 50}}")
    fewest = -(-len(names) // count)
    numbers = sorted(set(by_gpu.values()))
    if len(by_gpu) != fewest or len(numbers) != 1:
        spread = ", ".join(f"{number} on {gpu}" for gpu, number in sorted(by_gpu.items()))
        raise BadUnits(
            f"{len(names)} units are {spread}; a share is of {fewest} GPU(s), with the same number "
            "on each",
            "the pod again: no GPU has this number free, or they cannot be divided evenly",
        )
    return sorted(by_gpu), numbers[0] / count


def prefer(available: Sequence[str], must: Sequence[str], size: int, count: int) -> list[str]:
    """Which units a container should get: whole GPUs first, then the fragment that fits best.

    `available` units are free; the container must get `must` of them. If no choice fits the rule,
    the closest one is returned: the container is then refused with the reason.
    """
    free: dict[str, list[str]] = {}
    for name in sorted(available):
        free.setdefault(uuid_of(name), []).append(name)
    taken: dict[str, list[str]] = {}
    for name in must:
        taken.setdefault(uuid_of(name), []).append(name)
        if name not in free.get(uuid_of(name), []):
            free.setdefault(uuid_of(name), []).append(name)
    gpus = max(1, -(-size // count))
    each = -(-size // gpus)
    chosen = sorted(
        free,
        key=lambda uuid: (
            uuid not in taken,  # what must be taken decides
            len(free[uuid]) < each,  # those that are large enough first,
            len(free[uuid]),  # of them the smallest: what is left stays whole
            uuid,
        ),
    )
    found = list(must)
    for uuid in chosen[:gpus]:
        own = len(taken.get(uuid, []))
        rest = [name for name in free[uuid] if name not in found]
        found += rest[: max(0, min(each - own, size - len(found)))]
    if len(found) < size:
        found += [name for name in sorted(available) if name not in found][: size - len(found)]
    return found[:size]


def wanted_of(named: Mapping[str, str]) -> tuple[UnitName, ...]:
    """Resources by what a setting says: {'moiety.dev/a100': '*A100*'}."""
    return tuple(UnitName(resource, model) for resource, model in named.items())
