"""All spellings of one pod together: what each of its containers asks for, or why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from moiety.kube.dialects import hami, kai, kubeshare, metagpu, moiety, nvshare
from moiety.kube.dialects.request import Ask, Pod, Refused, Told, Wish, containers, resources
from moiety.kube.model import names

READERS: Final[Mapping[str, Callable[[Pod, Told], list[Wish]]]] = {
    "moiety": moiety.read,
    "nvshare": nvshare.read,
    "kubeshare": kubeshare.read,
    "hami": hami.read,
    "kai": kai.read,
    "metagpu": metagpu.read,
}
SCHEDULERS: Final = frozenset(
    {"hami-scheduler", "kai-scheduler", "kubeshare-scheduler", "runai-scheduler"}
)
"""of systems whose spelling is read here: a pod that is ours now must not wait for them"""


@dataclass(frozen=True, slots=True)
class Asks:
    """What a pod asks for."""

    by_container: Mapping[str, Ask]
    """in the pod's order; containers with the same ask, in annotations of ours, share it"""
    together: frozenset[str] = frozenset()
    """containers that have one share between them"""
    resources: frozenset[str] = frozenset()
    """names of resources that said so, and that no node has"""
    spellings: tuple[str, ...] = ()


def read(pod: Pod, told: Told) -> Asks | None:
    """What a pod asks for; None if it asks for nothing of ours. Raises Refused."""
    found: dict[str, list[Wish]] = {}
    for spelling in told.spellings:
        wishes = READERS[spelling](pod, told)
        if wishes:
            found[spelling] = wishes
    if not found:
        return None
    merged: dict[str, Wish] = {}
    for wishes in found.values():
        for wish in wishes:
            _agree(merged.setdefault(wish.container, wish), wish)
    _same_containers(found)
    _no_units_beside(pod, merged)
    order = [each["name"] for each in containers(pod)]
    keys = {key for wishes in found.values() for wish in wishes for key in wish.keys}
    together = {wish.container for wish in found.get("moiety", [])}
    return Asks(
        {name: merged[name].ask for name in order if name in merged},
        frozenset(together) | _shared_with_init(pod, merged),
        frozenset(key for key in keys if any(key in resources(c) for c in containers(pod))),
        tuple(found),
    )


def _agree(one: Wish, other: Wish) -> None:
    if one.ask != other.ask:
        raise Refused(
            f"container {one.container} is asked for twice, and not the same: {', '.join(one.keys)}"
            f" says {one.ask}; {', '.join(other.keys)} says {other.ask}"
        )


def _same_containers(found: Mapping[str, list[Wish]]) -> None:
    """Two spellings that name different containers are two opinions about one pod."""
    who = {spelling: frozenset(w.container for w in wishes) for spelling, wishes in found.items()}
    if len(set(who.values())) > 1:
        said = "; ".join(f"{name}: {', '.join(sorted(of))}" for name, of in who.items())
        raise Refused(
            f"the pod asks in {len(who)} spellings, for different containers ({said}); one of them"
        )


def _no_units_beside(pod: Pod, merged: Mapping[str, Wish]) -> None:
    for container in containers(pod):
        asked = resources(container)
        wish = merged.get(container["name"])
        read_here = set(wish.keys) if wish else set()
        for key in asked:
            whole = key in (hami.WHOLE, names.GPU) and asked[key] != "0"
            if whole and (key not in read_here or key == names.GPU):
                said = ", ".join(next(iter(merged.values())).keys)
                raise Refused(
                    f"container {container['name']} asks for {key}: {asked[key]}, and the pod for "
                    f"a share as well ({said}); one of them"
                )


def _shared_with_init(pod: Pod, merged: Mapping[str, Wish]) -> set[str]:
    """An init container that asks for what a later one asks for uses its share before it."""
    spec = pod.get("spec") or {}
    regular = [each["name"] for each in spec.get("containers") or []]
    found: set[str] = set()
    for each in spec.get("initContainers") or []:
        if each["name"] not in merged or each.get("restartPolicy") == "Always":
            continue
        later = [n for n in regular if n in merged and merged[n].ask == merged[each["name"]].ask]
        if later:
            found |= {each["name"], later[0]}
    return found
