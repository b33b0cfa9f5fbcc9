"""A whole hand-off as the shim makes it: chunks out and released; created, mapped, copied in.

Each chunk carries a value of its own, and every byte is looked at when it is back.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from dataclasses import dataclass, field

from tests.gpu.card.driver import GIB, MIB, Access, Driver, Location, chunk_prop
from tests.gpu.card.links import KINDS, memory, moved, uniform
from tests.gpu.card.run import Run, label

DEPTH = 2
"""chunks under way in one direction"""
HUGE = next(kind for kind in KINDS if kind.name == "private_huge")


@dataclass
class Tenant:
    """A range of addresses, its chunks, and host memory for all of them."""

    driver: Driver
    size: int
    count: int
    host: int
    mark: int
    base: int = 0
    handles: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.base = self.driver.get("cuMemAddressReserve", self.size * self.count, 0, 0, 0)
        self.handles = [0] * self.count
        self.stream = self.driver.stream()
        self.events = [self.driver.event() for _ in range(self.count)]

    def at(self, i: int) -> int:
        """Where chunk i is."""
        return self.base + i * self.size

    def map(self, i: int) -> None:
        """Memory behind chunk i."""
        prop, access = chunk_prop(0, 1), Access(Location(1, 0), 3)
        self.handles[i] = self.driver.get("cuMemCreate", self.size, ctypes.byref(prop), 0)
        self.driver.call("cuMemMap", self.at(i), self.size, 0, self.handles[i], 0)
        self.driver.call("cuMemSetAccess", self.at(i), self.size, ctypes.byref(access), 1)

    def unmap(self, i: int) -> None:
        """None any more."""
        self.driver.call("cuMemUnmap", self.at(i), self.size)
        self.driver.call("cuMemRelease", self.handles[i])
        self.handles[i] = 0

    def begin_out(self, i: int) -> None:
        """Chunk i starts to leave."""
        place = self.host + i * self.size
        self.driver.call("cuMemcpyDtoHAsync_v2", place, self.at(i), self.size, self.stream)
        self.driver.call("cuEventRecord", self.events[i], self.stream)

    def end_out(self, i: int) -> None:
        """Chunk i has left."""
        self.driver.call("cuEventSynchronize", self.events[i])
        self.unmap(i)

    def begin_in(self, i: int) -> None:
        """Chunk i starts to come back."""
        self.map(i)
        place = self.host + i * self.size
        self.driver.call("cuMemcpyHtoDAsync_v2", self.at(i), place, self.size, self.stream)
        self.driver.call("cuEventRecord", self.events[i], self.stream)

    def value(self, i: int) -> int:
        """What every byte of chunk i is."""
        return (self.mark + 37 * i) % 255 + 1

    def fill(self) -> None:
        """Every chunk on the card, with its value."""
        for i in range(self.count):
            self.map(i)
            self.driver.call("cuMemsetD8_v2", self.at(i), self.value(i), self.size)
        self.driver.sync()

    def park(self) -> None:
        """Every chunk in host memory, with its value, and none on the card."""
        for i in range(self.count):
            ctypes.memset(self.host + i * self.size, self.value(i), self.size)

    def wrong(self) -> int:
        """Chunks with a wrong byte. The host's copies are spoilt first, so they cannot help."""
        ctypes.memset(self.host, 0, self.size * self.count)
        for i in range(self.count):
            place = self.host + i * self.size
            self.driver.call("cuMemcpyDtoH_v2", place, self.at(i), self.size)
        places = [self.host + i * self.size for i in range(self.count)]
        return sum(uniform(at, self.size) != self.value(i) for i, at in enumerate(places))

    def end(self) -> None:
        """Give everything back."""
        self.driver.sync()
        for i, handle in enumerate(self.handles):
            if handle:
                self.unmap(i)
        for event in self.events:
            self.driver.call("cuEventDestroy_v2", event)
        self.driver.call("cuStreamDestroy_v2", self.stream)
        self.driver.call("cuMemAddressFree", self.base, self.size * self.count)


def measure(run: Run) -> None:
    """By chunk size; then one tenant out while another one comes in."""
    total = run.host_size((128 if run.quick else 8192) * MIB, 0.8)
    for size in run.sizes(64, 2, 256, of=total // 2):
        with run.part(label(size)):
            one_after_the_other(run, size, min(total, GIB) if size == 2 * MIB else total)
    with run.part("duplex"):
        size = run.sizes(64, 2, of=total // 8)[0]
        duplex(run, size, total // 2)


def link(run: Run, host: int, size: int) -> dict[str, float]:
    """The link's own rates from this host memory."""
    with run.driver.device_memory(size) as device, run.driver.device_memory(size) as other:
        into, out = ("h2d", host, device), ("d2h", host + size, other)
        moved(run, [into], size, 2)
        pieces = 4 if run.quick else 16
        rates = {"h2d": moved(run, [into], size, pieces), "d2h": moved(run, [out], size, pieces)}
        return rates | {"duplex": moved(run, [into, out], size, pieces)}


def one_after_the_other(run: Run, size: int, total: int) -> None:
    """All out, then all in, against what the link alone takes for it."""
    count = total // size
    with memory(count * size, HUGE) as host:
        run.driver.call("cuMemHostRegister_v2", host, count * size, 1)
        rates = link(run, host, size)
        tenant = Tenant(run.driver, size, count, host, 11)
        tenant.fill()
        began = time.perf_counter()
        leaving: deque[int] = deque()
        for i in range(count):
            if len(leaving) == DEPTH:
                tenant.end_out(leaving.popleft())
            tenant.begin_out(i)
            leaving.append(i)
        while leaving:
            tenant.end_out(leaving.popleft())
        out_s = time.perf_counter() - began
        began = time.perf_counter()
        for i in range(count):
            tenant.begin_in(i)
        run.driver.sync(tenant.stream)
        in_s = time.perf_counter() - began
        wrong = tenant.wrong()
        tenant.end()
        run.driver.call("cuMemHostUnregister", host)
    bytes_ = count * size
    link_s = bytes_ / 1e9 / rates["d2h"] + bytes_ / 1e9 / rates["h2d"]
    run.note(
        f"chunks_{label(size)}",
        {
            "mib": bytes_ // MIB,
            "out_s": round(out_s, 4),
            "in_s": round(in_s, 4),
            "link_s": round(link_s, 4),
            "ratio": round((out_s + in_s) / link_s, 3),
            "chunks_wrong": wrong,
        },
    )


def duplex(run: Run, size: int, total: int) -> None:
    """Chunk n of one tenant leaves while chunk n-1 of the other one comes; two chunks of room."""
    count = total // size
    both = 2 * count * size
    with memory(both, HUGE) as host:
        run.driver.call("cuMemHostRegister_v2", host, both, 1)
        rates = link(run, host, size)
        going = Tenant(run.driver, size, count, host, 3)
        coming = Tenant(run.driver, size, count, host + both // 2, 7)
        going.fill()
        coming.park()
        began = time.perf_counter()
        for i in range(min(DEPTH, count)):
            going.begin_out(i)
        for i in range(count):
            going.end_out(i)
            if i + DEPTH < count:
                going.begin_out(i + DEPTH)
            coming.begin_in(i)
        run.driver.sync(coming.stream)
        took_s = time.perf_counter() - began
        wrong = coming.wrong()
        going.end()
        coming.end()
        run.driver.call("cuMemHostUnregister", host)
    link_s = both / 1e9 / rates["duplex"]
    run.note(
        f"duplex_{label(size)}",
        {
            "mib_each_way": both // 2 // MIB,
            "took_s": round(took_s, 4),
            "link_s": round(link_s, 4),
            "ratio": round(took_s / link_s, 3),
            "link_gb_per_s": rates,
            "chunks_wrong": wrong,
        },
    )
