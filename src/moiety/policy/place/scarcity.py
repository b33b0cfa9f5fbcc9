"""How scarce each node's GPUs are: the demand that only some nodes can take, over what these have.

A GPU is scarce because tasks ask for its model by name, or because few nodes are as large as some
tasks need (CPUs, memory, GPUs of one node, memory of a GPU). Demand counts evenly for all GPUs that
could ever take it. So a node that only suits what suits every node has a scarcity of zero.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from moiety.policy.place.arrays import Bools, NodeArrays
from moiety.policy.place.workload_mix import WorkloadMix

Floats = npt.NDArray[np.float64]


def scarcity(cluster: NodeArrays, typical: WorkloadMix) -> Floats:
    """[N], zero or more: the demand for a node's GPUs over the supply, above an even demand.

    One: the part of all demand that asks for such GPUs is the part of all GPUs that they are.
    Demand is divided once by the models that tasks name, and once by all that they need of an
    empty node; the larger result counts. Nodes without GPUs have zero.
    """
    healthy = (cluster.capacity > 0).sum(axis=1)
    facts = (cluster.model, cluster.cpu, cluster.memory, cluster.gpu_memory, healthy)
    kinds, kind_of = np.unique(np.stack(facts, axis=1), axis=0, return_inverse=True)
    kind_of = kind_of.reshape(-1)
    model, cpu, memory, gpu_memory, gpus = kinds.T
    have = np.bincount(kind_of, healthy, len(kinds)).astype(float)
    amounts = np.array([amount for _, amount in typical.demand], float)
    demand = amounts.sum()
    if not demand or not have.sum():
        return np.zeros(len(cluster))
    named = np.array([bool(shape.models) for shape, _ in typical.demand])
    by_name = _by_name(cluster, typical)[:, model]
    asked = [
        (shape.cpu_milli, shape.memory_mib, shape.gpu_memory_mib, shape.gpus)
        for shape, _ in typical.demand
    ]
    least = np.array(asked, np.int64).T[:, :, None]
    able = by_name & (gpus > 0)
    for offered, needed in zip((cpu, memory, gpu_memory, gpus), least, strict=True):
        able &= offered >= needed
    anywhere = amounts[~named].sum() / demand
    even = have.sum() / demand
    by_model = _spread(by_name[named], amounts[named], have) * even
    by_size = _spread(able, amounts, have) * even - anywhere
    found: Floats = np.where(gpus > 0, np.maximum(by_model, by_size), 0.0)[kind_of]
    return np.maximum(found, 0.0)


def _by_name(cluster: NodeArrays, typical: WorkloadMix) -> Bools:
    """[demand, number of models]: which models will do."""
    will_do = [
        [not shape.models or model in shape.models for model in cluster.models]
        for shape, _ in typical.demand
    ]
    return np.array(will_do, np.bool_)


def _spread(able: Bools, amounts: Floats, have: Floats) -> Floats:
    """[kinds]: the demand for each GPU, if every amount goes evenly to GPUs that can take it."""
    there = np.einsum("dk,k->d", able, have)  # not by `@`: see LeastFragmentation._usefulness
    parts = np.divide(amounts, there, out=np.zeros_like(amounts), where=there > 0)
    found: Floats = np.einsum("d,dk->k", parts, able)
    return found
