"""The NVLink connections between the GPUs of this machine, as NVML tells them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

LINKS_MAX: Final = 18
"""The most NVLink connections of one GPU (NVML_NVLINK_MAX_LINKS)."""

Optional = Callable[..., Any]
"""Calls a function of NVML by its name; None if this card or library does not have it."""


def links_of(
    optional: Optional, handles: Mapping[int, Any]
) -> dict[int, tuple[tuple[int, int], ...]]:
    """By index of each GPU: the GPUs that it has direct links to, each with the number of links.

    `handles` are NVML's, by index. GPUs with links to switches reach each other with as many links
    as both have: NVSwitch connects all GPUs of a machine.
    """
    buses = {_bus(optional("nvmlDeviceGetPciInfo", handle)): at for at, handle in handles.items()}
    direct = {at: _remote(optional, handle) for at, handle in handles.items()}
    switched = {
        at: sum(number for bus, number in remote.items() if bus not in buses)
        for at, remote in direct.items()
    }
    found = {}
    for at, remote in direct.items():
        links = Counter({buses[bus]: number for bus, number in remote.items() if bus in buses})
        for peer, number in switched.items():
            links[peer] += min(number, switched[at])
        found[at] = tuple(sorted((peer, n) for peer, n in links.items() if n and peer != at))
    return found


def _remote(optional: Optional, handle: Any) -> Counter[str]:
    """The number of working links of a GPU, by the PCI address at the other end."""
    found: Counter[str] = Counter()
    for link in range(LINKS_MAX):
        state = optional("nvmlDeviceGetNvLinkState", handle, link)
        if state is None:  # it has no link of this number
            break
        if state and (remote := _bus(optional("nvmlDeviceGetNvLinkRemotePciInfo", handle, link))):
            found[remote] += 1
    return found


def _bus(pci: Any) -> str:
    """A PCI address in one form, such as 0000:65:00.0; empty if there is none."""
    text = pci.busId if pci is not None else ""
    return (text.decode() if isinstance(text, bytes) else text).lower()[-12:]
