"""The GPUs that pods can have a share of: the GPUs of this node's agent, and their health."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from moiety.agent.control.rows import GpuRow
from moiety.devices.gpu_models import Card
from moiety.kube.resource_slices import NodeGpu

SERIOUS: Final = frozenset({48, 62, 64, 74, 79, 94, 95, 119, 120, 140, 143})
"""Errors (XID) after which a GPU gets no new pods; other errors are a program's, not the GPU's."""


class Inventory:
    """The GPUs by the names of their devices, and callbacks for changes."""

    def __init__(self, cards: Mapping[str, Card], *, recovery_s: float) -> None:
        """`cards` are by UUID; a GPU is healthy `recovery_s` after its last serious error."""
        self._cards = cards
        self._recovery_s = recovery_s
        self.gpus: dict[str, NodeGpu] = {}
        self.on_change: list[Callable[[], None]] = []

    def saw(self, rows: list[GpuRow]) -> bool:
        """Take the agent's rows; True if anything changed."""
        found = {}
        for row in rows:
            card = self._cards.get(row.uuid) or Card(row.gpu, row.uuid, row.name, row.total_bytes)
            gpu = NodeGpu(card, row.capacity_bytes, self._trouble(row))
            found[gpu.device] = gpu
        if found == self.gpus:
            return False
        self.gpus = found
        for tell in self.on_change:
            tell()
        return True

    def _trouble(self, row: GpuRow) -> str:
        if row.lost:
            return row.lost
        if row.used_bytes is None:
            return f"NVML does not answer about GPU {row.gpu}"
        # The agent and its journal keep the errors, because this process may be killed.
        ago_s, xid = min(((s, x) for x, s in row.errors.items() if x in SERIOUS), default=(0.0, 0))
        if xid and ago_s < self._recovery_s:
            return f"GPU {row.gpu} had a serious error (XID {xid})"
        return ""
