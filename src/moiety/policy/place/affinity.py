"""Which tasks share a GPU: affinity, anti-affinity and exclusion by label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from moiety.policy.model.workloads import NO_LABELS, Affinity, Workload
from moiety.policy.place.arrays import Bools, Mask
from moiety.policy.place.pools import Masks, Place, Pools


class AffinityIndex:
    """The labels on each GPU; only GPUs with labels are in it.

    It is not built where no task has labels (`are_asked_for`). A task without labels stays away
    from GPUs with an exclusion.
    """

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._on: dict[tuple[str, int, int], Counter[tuple[str, str]]] = {}

    @staticmethod
    def are_asked_for(workloads: tuple[Workload, ...]) -> bool:
        """Whether any task of these workloads has labels."""
        for workload in workloads:
            for subgroup in workload.subgroups:
                company = subgroup.company
                if company is not NO_LABELS and company != NO_LABELS:
                    return True
        return False

    def change(self, company: Affinity, place: Place, sign: int) -> None:
        """A task with these labels begins (sign 1) or ends (-1) there."""
        for kind, label in _labels(company):
            for gpu in place.seat.gpus:
                key = place.pool, place.seat.node, gpu
                on = self._on.setdefault(key, Counter())
                on[kind, label] += sign
                if not on[kind, label]:
                    del on[kind, label]
                if not on:
                    del self._on[key]

    def masks(self, company: Affinity) -> Masks:
        """Where a task with these labels may run now."""
        found = self._by_labels(company)
        if company.gpus is None:
            return found
        return {pool: mask.both(self._only(pool, company.gpus)) for pool, mask in found.items()}

    def _only(self, pool: str, meant: frozenset[tuple[str, int]]) -> Mask:
        """None but these GPUs of a pool."""
        cluster = self._pools.placers[pool].cluster
        gpus: Bools = np.zeros(cluster.left.shape, np.bool_)
        for node, gpu in meant:
            if node in cluster.index and gpu < gpus.shape[1]:
                gpus[cluster.index[node], gpu] = True
        return Mask(np.ones(len(cluster), np.bool_), gpus)

    def _by_labels(self, company: Affinity) -> Masks:
        found = {}
        for pool, placer in self._pools.placers.items():
            cluster = placer.cluster
            gpus: Bools = np.ones(cluster.left.shape, np.bool_)
            if company.exclusion is not None:  # GPUs in use count only if all their tasks have
                gpus = cluster.left == cluster.capacity  # the label
            found[pool] = Mask(np.ones(len(cluster), np.bool_), gpus)
        met = [
            place for place, on in self._on.items() if ("affinity", company.affinity or "") in on
        ]
        for (pool, node, gpu), on in self._on.items():
            on_gpus = found[pool].gpus
            assert on_gpus is not None
            excluded = {label for kind, label in on if kind == "exclusion"}
            if excluded:
                on_gpus[node, gpu] = excluded == {company.exclusion}
            if company.anti_affinity is not None and ("anti", company.anti_affinity) in on:
                on_gpus[node, gpu] = False
        if company.affinity is None or not met:
            return found
        together = {
            pool: np.zeros(placer.cluster.left.shape, np.bool_)
            for pool, placer in self._pools.placers.items()
        }
        for pool, node, gpu in met:
            together[pool][node, gpu] = True
        return {pool: mask.both(Mask(mask.nodes, together[pool])) for pool, mask in found.items()}

    def allow(self, company: Affinity, place: Place) -> bool:
        """Whether a task with these labels may run exactly there."""
        gpus = self.masks(company)[place.pool].gpus
        assert gpus is not None
        return all(bool(gpus[place.seat.node, gpu]) for gpu in place.seat.gpus)


def _labels(company: Affinity) -> Iterator[tuple[str, str]]:
    if company.affinity is not None:
        yield "affinity", company.affinity
    if company.anti_affinity is not None:
        yield "anti", company.anti_affinity
    if company.exclusion is not None:
        yield "exclusion", company.exclusion
