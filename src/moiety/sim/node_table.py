"""Reads the nodes of a folder: their GPUs, of several models too, and their domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from moiety.policy.model.cluster import GPUS_MAX, Node, gpus
from moiety.sim.reading import Complaints, TableRow, read_table
from moiety.sim.trace import check_nodes, gpu_count, gpu_model

COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "gpus")
MODEL: Final = "GPU"
"""The GPU model of nodes that name none."""
HOST: Final = "host"
"""The level of the topology that keeps the parts of a machine with several models together."""


def read_nodes(path: Path, complaints: Complaints) -> tuple[Node, ...]:
    """The nodes of a table; a machine with several models is a node for each of them.

    Raises TraceMissing and TraceInvalid, as `read_table`.
    """
    rows = read_table(path, COLUMNS, _nodes, complaints)
    found = check_nodes(path, [(line, node) for line, own in rows for node in own], complaints)
    split = [own for _, own in rows if len(own) > 1]
    return on_hosts(found, {node.name: machine_of(node) for own in split for node in own})


def on_hosts(nodes: Sequence[Node], machines: Mapping[str, str]) -> tuple[Node, ...]:
    """The nodes, each in the domain of its host; `machines` has the machine of each part of one.

    Without any such part there are no hosts, and the nodes stay as they are.
    """
    if not machines:
        return tuple(nodes)
    return tuple(
        replace(node, topology=(*node.topology, (HOST, machines.get(node.name, node.name))))
        for node in nodes
    )


def machine_of(part: Node) -> str:
    """The machine that a node made by `machine_parts` is a part of."""
    return part.name.rpartition("/")[0]


def machine_parts(
    machine: Node, counts: Sequence[tuple[str, int]], memories: Sequence[int]
) -> list[Node]:
    """A node for each model of a machine, each with its part of the CPUs and the memory.

    `counts`: models, and how many GPUs there are of each; `memories`: MiB of one GPU of each.
    """
    total = sum(count for _, count in counts)
    return [
        replace(
            machine,
            name=f"{machine.name}/{model}",
            cpu_milli=machine.cpu_milli * count // total,
            memory_mib=machine.memory_mib * count // total,
            gpus=gpus(count),
            model=model,
            gpu_memory_mib=memory,
        )
        for (model, count), memory in zip(counts, memories, strict=True)
    ]


def model_counts(text: str) -> list[tuple[str, int]] | None:
    """Of `A100:4|T4:2`, how many GPUs there are of each model; None: the text is one model.

    Raises ValueError if it is neither, or has more GPUs than can be placed on.
    """
    if ":" not in text:
        return None
    found: list[tuple[str, int]] = []
    for part in text.split("|"):
        model, _, count = (each.strip() for each in part.rpartition(":"))
        if not model or not count.isascii() or not count.isdecimal() or not int(count):
            raise ValueError(f"{part.strip()!r} is not a model and its number of GPUs, as A100:4")
        if model in dict(found):
            raise ValueError(f"it names the model {model} twice")
        found.append((model, min(int(count), GPUS_MAX + 1)))
    if sum(count for _, count in found) > GPUS_MAX:
        raise ValueError(f"it has more than {GPUS_MAX} GPUs; at most {GPUS_MAX} can be placed on")
    return found


def _nodes(row: TableRow) -> list[Node]:
    """One node, or one for each model."""
    counts = model_counts(row.text("model", ""))
    whole = Node(
        row.text("name"),
        row.whole("cpu_milli"),
        row.whole("memory_mib"),
        pool=row.text("pool", "default"),
        topology=_topology(row),
    )
    if counts is None:
        count = gpu_count(row, "gpus")
        model = gpu_model(row, MODEL) if count else ""
        memory = row.whole("gpu_memory_mib", 0)
        return [replace(whole, gpus=gpus(count), model=model, gpu_memory_mib=memory)]
    total = sum(count for _, count in counts)
    said = row.whole("gpus", total)
    if said != total:
        raise ValueError(f"its models add up to {total} GPUs, and gpus is {said}")
    return machine_parts(whole, counts, _memories(row, len(counts)))


def _memories(row: TableRow, models: int) -> list[int]:
    """The memory of each model's GPUs: one number for each, in their order, or one for all."""
    parts = row.text("gpu_memory_mib", "0").split("|")
    if len(parts) not in (1, models):
        raise ValueError(f"gpu_memory_mib has {len(parts)} numbers, and model has {models} models")
    found = [TableRow({"gpu_memory_mib": part}).whole("gpu_memory_mib") for part in parts]
    return found * models if len(found) == 1 else found


def _topology(row: TableRow) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for part in row.text("topology", "").split("|"):
        if not part.strip():
            continue
        level, has, name = (each.strip() for each in part.partition("="))
        if not has or not level or not name:
            raise ValueError(f"{part.strip()!r} is no domain of a topology, such as rack=r7")
        if level in dict(found) or level == HOST:
            raise ValueError(
                f"topology names the level {level} twice, or {HOST} (each node has it)"
            )
        found.append((level, name))
    return tuple(found)
