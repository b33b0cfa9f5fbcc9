"""One section of measurements as it runs: what it may use, and where its facts go."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.gpu.card.driver import GIB, MIB, Driver
from tests.gpu.card.timing import Timer

OF_THE_CARD = 0.55
OF_WHAT_IS_FREE = 0.8
OF_THE_HOST = 0.5


@dataclass
class Run:
    """What a section gets. Facts are written out at once: a section that is ended keeps them."""

    quick: bool
    deadline_s: float
    host_bytes: int = 0
    library: str = ""
    write: Callable[[str], None] = field(default=lambda line: print(line, flush=True))
    failed: int = 0
    _driver: Driver | None = None

    @property
    def driver(self) -> Driver:
        """The driver, started, with a context."""
        if self._driver is None:
            self._driver = Driver()
            self._driver.start()
        return self._driver

    @property
    def timer(self) -> Timer:
        """Times the driver's calls."""
        return Timer(self.driver, self.library)

    @property
    def simulated(self) -> bool:
        """Whether this is the stand-in driver."""
        return self.driver.name().endswith("(simgpu)")

    @property
    def card_bytes(self) -> int:
        """What may be taken of the card's memory."""
        free, total = self.driver.memory()
        return int(min(free * OF_WHAT_IS_FREE, total * OF_THE_CARD))

    @property
    def left_s(self) -> float:
        """Until this section is ended."""
        return self.deadline_s - time.monotonic()

    def note(self, name: str, value: Any) -> None:
        """Keep a fact."""
        self.write(json.dumps({"name": name, "value": value}))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A group of facts; if it fails, that is a fact, and the next group is tried."""
        try:
            yield
        except Exception as error:
            self.failed += 1
            self.note(f"{name}_error", f"{type(error).__name__}: {error}")

    def sizes(self, *mib: int, of: int) -> list[int]:
        """Those of these sizes that fit `of` bytes; two small ones in a quick run."""
        fitting = [m * MIB for m in mib if m * MIB <= of]
        return fitting[:2] if self.quick else fitting

    def host_size(self, wanted: int, of_card: float = 1.0) -> int:
        """As much of `wanted` as host and card allow, in whole 2 MiB."""
        most = min(wanted, self.host_bytes or available_bytes(), int(self.card_bytes * of_card))
        return most // (2 * MIB) * 2 * MIB


def available_bytes() -> int:
    """Half of the host's memory that is free."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(int(line.split()[1]) * 1024 * OF_THE_HOST)
    return 4 * GIB


def gb_per_s(size: float, seconds: float) -> float:
    """A rate in 10^9 bytes a second."""
    return round(size / max(seconds, 1e-9) / 1e9, 3)


def label(size: int) -> str:
    """A size as part of a fact's name."""
    return f"{size // GIB}gib" if size % GIB == 0 else f"{size // MIB}mib"


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)
