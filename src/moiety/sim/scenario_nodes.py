"""The nodes of a scenario, and the models that its jobs may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from moiety.policy.model.cluster import GPUS_MAX, Node, gpus
from moiety.sim.case_values import BadCase, number, text
from moiety.sim.node_table import MODEL, machine_of, machine_parts, model_counts, on_hosts

Row = tuple[str, Mapping[str, Any]]
"""Where a row stands in its case, and what it says."""


def read_nodes(rows: Sequence[Row]) -> tuple[tuple[Node, ...], dict[str, str]]:
    """All nodes, and the machine of each that is a part of one with several models.

    Raises BadCase, as all functions of this module.
    """
    found: dict[str, Node] = {}
    machines: dict[str, str] = {}
    for where, row in rows:
        nodes = _nodes(row, where)
        for node in nodes:
            if node.name in found:
                raise BadCase(f"{where}.name", f"there are two nodes of the name {node.name}")
            found[node.name] = node
        if nodes[0].name != row["name"]:
            machines |= {node.name: machine_of(node) for node in nodes}
    return on_hosts(list(found.values()), machines), machines


def allowed_models(row: Mapping[str, Any], where: str, nodes: Sequence[Node]) -> frozenset[str]:
    """The GPU models that will do for a job, if it names any."""
    named = row.get("models")
    if named is None:
        return frozenset()
    if not isinstance(named, list) or not named:
        raise BadCase(f"{where}.models", f"it is not a list of GPU models: {named!r}")
    there = {node.model for node in nodes if node.model}
    for each in named:
        if not isinstance(each, str) or each not in there:
            has = ", ".join(sorted(there)) or "none"
            raise BadCase(f"{where}.models", f"no node has GPUs of model {each!r}, but: {has}")
    return frozenset(named)


def _nodes(row: Mapping[str, Any], where: str) -> list[Node]:
    counts = _counts(row, where)
    total = sum(count for _, count in counts or ())
    count = int(number(row, "gpus", where, total))
    if count > GPUS_MAX:
        problem = f"it has {count} GPUs; at most {GPUS_MAX} can be placed on"
        raise BadCase(f"{where}.gpus", problem)
    machine = Node(
        row["name"],
        int(number(row, "cpu_milli", where, 0)),
        int(number(row, "memory_bytes", where, 0)),
    )
    if counts is None:
        memory = int(number(row, "gpu_memory_mib", where, 0))
        model = _model(row, where) if count else ""
        return [replace(machine, gpus=gpus(count), model=model, gpu_memory_mib=memory)]
    if count != total:
        problem = f"its models add up to {total} GPUs, and gpus is {count}"
        raise BadCase(f"{where}.gpus", problem)
    return machine_parts(machine, counts, _memories(row, where, len(counts)))


def _model(row: Mapping[str, Any], where: str) -> str:
    return MODEL if row.get("model") is None else text(row, "model", where)


def _counts(row: Mapping[str, Any], where: str) -> list[tuple[str, int]] | None:
    """How many GPUs a node has of each model; None: all are of one."""
    model = row.get("model")
    if model is None:
        return None
    if isinstance(model, list):
        shown = " and ".join(map(str, model))
        problem = f"say how many GPUs it has of {shown}, as in 'A100:4|T4:2'"
        raise BadCase(f"{where}.model", problem)
    said = text(row, "model", where)
    try:
        return model_counts(said)
    except ValueError as error:
        raise BadCase(f"{where}.model", str(error)) from None


def _memories(row: Mapping[str, Any], where: str, models: int) -> list[int]:
    """The memory of each model's GPUs: one number for each, in their order, or one for all."""
    said = row.get("gpu_memory_mib", 0)
    parts = said if isinstance(said, list) else [said] * models
    if len(parts) != models:
        problem = f"it has {len(parts)} numbers, and model has {models} models"
        raise BadCase(f"{where}.gpu_memory_mib", problem)
    key = "gpu_memory_mib"
    return [int(number({key: part}, key, where, 0)) for part in parts]
