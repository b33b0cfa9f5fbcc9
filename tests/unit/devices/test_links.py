"""Which GPUs are linked, from what NVML says of each link."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from moiety.devices.links import links_of


class Machine:
    """NVML with these links: by GPU, the bus at the other end of each; None is a link that is down.

    GPU N is on bus N + 1. A GPU that is not named has no NVLink.
    """

    def __init__(self, gpus: int, **remote: list[str | None]) -> None:
        self.gpus = gpus
        self.remote = {int(at[1:]): links for at, links in remote.items()}

    def optional(self, call: str, handle: int, link: int = 0) -> Any:
        links = self.remote.get(handle, [])
        if call == "nvmlDeviceGetPciInfo":
            return SimpleNamespace(busId=f"00000000:{handle + 1:02X}:00.0".encode())
        if link >= len(links):
            return None
        if call == "nvmlDeviceGetNvLinkState":
            return int(links[link] is not None)
        assert call == "nvmlDeviceGetNvLinkRemotePciInfo"
        return SimpleNamespace(busId=links[link])

    def links(self) -> dict[int, dict[int, int]]:
        found = links_of(self.optional, {at: at for at in range(self.gpus)})
        return {at: dict(links) for at, links in found.items()}


def test_links_between_gpus_are_counted() -> None:
    second, first = "0000:02:00.0", "0000:01:00.0"
    machine = Machine(3, g0=[second, None, second], g1=[first, first])
    assert machine.links() == {0: {1: 2}, 1: {0: 2}, 2: {}}


def test_switches_connect_all_gpus_with_links_to_them() -> None:
    machine = Machine(4, g0=["0000:c1:00.0"] * 6, g1=["0000:c1:00.0", "0000:c2:00.0"], g2=[None])
    assert machine.links() == {0: {1: 2}, 1: {0: 2}, 2: {}, 3: {}}


def test_a_machine_without_nvlink_has_none() -> None:
    assert Machine(2).links() == {0: {}, 1: {}}
