"""The properties of a GPU, by which users and schedulers choose one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

BRANDS: Final = {
    1: "Quadro", 2: "Tesla", 3: "NVS", 4: "Grid", 5: "GeForce", 6: "Titan",
    7: "NvidiaVApps", 8: "NvidiaVPC", 9: "NvidiaVCS", 10: "NvidiaVWS", 11: "NvidiaCloudGaming",
    12: "QuadroRTX", 13: "NvidiaRTX", 14: "Nvidia", 15: "GeForceRTX", 16: "TitanRTX",
}  # fmt: skip
ARCHITECTURES: Final = {
    2: "Kepler", 3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing",
    7: "Ampere", 8: "Ada Lovelace", 9: "Hopper", 10: "Blackwell",
}  # fmt: skip
OF_CAPABILITY: Final = {
    (3, None): 2, (5, None): 3, (6, None): 4, (7, 0): 5, (7, 2): 5, (7, 5): 6,
    (8, 9): 8, (8, None): 7, (9, None): 9, (10, None): 10, (12, None): 10,
}  # fmt: skip
"""The architecture where NVML does not name it."""


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU's properties; empty or None: not known."""

    index: int
    uuid: str
    name: str
    total_bytes: int
    brand: str = ""
    architecture: str = ""
    capability: tuple[int, int] | None = None
    """CUDA's compute capability, such as (8, 0)."""
    driver: str = ""
    cuda: tuple[int, int] | None = None
    """The newest CUDA version that the driver serves, such as (13, 0)."""
    bus_id: str = ""
    """PCI address in the form domain:bus:device.function."""
    minor: int | None = None
    """Minor number of its device node."""
    numa_node: int | None = None

    @property
    def pcie_root(self) -> str:
        """The root of PCIe below which it is, such as pci0000:40."""
        try:
            place = os.path.realpath(f"/sys/bus/pci/devices/{self.bus_id}")
        except OSError:
            return ""
        parts = Path(place).parts
        return next((part for part in parts if part.startswith("pci0")), "")


def architecture_of(number: int | None, capability: tuple[int, int] | None) -> str:
    """The name of an architecture, from NVML's number or from the compute capability."""
    if number is None or number not in ARCHITECTURES:
        major, minor = capability or (0, 0)
        number = OF_CAPABILITY.get((major, minor), OF_CAPABILITY.get((major, None), 0))
    return ARCHITECTURES.get(number, "")


def card_of(ask: Callable[..., Any], text: Callable[[Any], str], base: Card, handle: Any) -> Card:
    """A card with the properties that only some cards have; `ask` returns None for the others."""
    found = ask("nvmlDeviceGetCudaComputeCapability", handle)
    capability = (int(found[0]), int(found[1])) if found else None
    version = ask("nvmlSystemGetCudaDriverVersion_v2") or ask("nvmlSystemGetCudaDriverVersion")
    pci = ask("nvmlDeviceGetPciInfo", handle)
    driver = ask("nvmlSystemGetDriverVersion")
    return Card(
        base.index,
        base.uuid,
        base.name,
        base.total_bytes,
        BRANDS.get(ask("nvmlDeviceGetBrand", handle) or 0, ""),
        architecture_of(ask("nvmlDeviceGetArchitecture", handle), capability),
        capability,
        text(driver) if driver else "",
        (version // 1000, version % 1000 // 10) if version else None,
        text(pci.busId).lower()[-12:] if pci else "",
        ask("nvmlDeviceGetMinorNumber", handle),
        base.numa_node,
    )
