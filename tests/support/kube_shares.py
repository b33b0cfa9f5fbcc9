"""Shares of pods without a node: the agent and the files for the runtime are stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import structlog

from moiety.agent.control import protocol
from moiety.agent.control.rows import ContainerRow
from moiety.devices.gpu_models import Card
from moiety.kube.agent_client import AgentClient
from moiety.kube.cdi_specs import CdiSpecs
from moiety.kube.checkpoint import AssignmentStore
from moiety.kube.device_accounting import DeviceAccounting, ServiceMode
from moiety.kube.inventory import Inventory
from moiety.kube.resource_slices import NodeGpu
from moiety.kube.share_manager import ShareManager
from moiety.model.errors import ContainerShareUnknown, MoietyError

UUIDS = ("GPU-0", "GPU-1")


class PlayedShares:
    """Answers about shares for containers as the agent does."""

    def __init__(self) -> None:
        self.rows: dict[str, ContainerRow] = {}
        self.asked: list[tuple[str, str]] = []
        """Kind and share of each request."""
        self.fail: Callable[[str, str], MoietyError | None] = lambda *_: None
        """The error that answers a request of this kind about this share."""

    async def ask(self, request: Any, answer: Any) -> Any:
        del answer
        kind = type(request).__name__
        self.asked.append((kind, request.name))
        if error := self.fail(kind, request.name):
            raise error
        if isinstance(request, protocol.CreateContainer):
            row = ContainerRow(
                request.name, 0, request.share, request.spec, "/run/share", pods=request.pods
            )
            self.rows[request.name] = row
            return protocol.Contained(row=row)
        if request.name not in self.rows:
            raise ContainerShareUnknown(request.name)
        return protocol.Contained(row=self.rows.pop(request.name))


class PlayedSpecs:
    """Remembers which shares have a file."""

    def __init__(self) -> None:
        self.there: set[str] = set()

    def path(self, name: str) -> Path:
        return Path(f"/cdi/{name}.json")

    def write(self, name: str, *_: Any) -> str:
        self.there.add(name)
        return self.device(name)

    def remove(self, name: str) -> None:
        self.there.discard(name)

    def device(self, name: str) -> str:
        return f"moiety.dev/gpu={name}"


def manager(folder: Path) -> tuple[ShareManager, PlayedShares]:
    """The shares of a node with two GPUs, and its agent."""
    agent = PlayedShares()
    inventory = Inventory({}, recovery_s=0.0)
    cards = [Card(number, uuid, "T4", 16 << 30) for number, uuid in enumerate(UUIDS)]
    inventory.gpus = {gpu.device: gpu for gpu in (NodeGpu(card, 16 << 30) for card in cards)}
    ledger = DeviceAccounting(AssignmentStore(folder / "given.json"), ServiceMode.BOTH)
    line, specs = cast("AgentClient", agent), cast("CdiSpecs", PlayedSpecs())
    return ShareManager(ledger, line, specs, inventory, structlog.get_logger()), agent
