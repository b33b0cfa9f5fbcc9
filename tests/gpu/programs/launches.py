"""Times calls of the driver and prints nanoseconds of each as JSON.

usage: launches.py LIBRARY BATCHES      LIBRARY: calls.c compiled, or - to time from Python
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.gpu.card.driver import Driver
from tests.gpu.card.timing import Timer, launch_row

BATCH = 200


def main() -> int:
    """Run it."""
    driver = Driver()
    driver.start()
    timer = Timer(driver, "" if sys.argv[1] == "-" else sys.argv[1])
    batches = int(sys.argv[2])
    stream, event = driver.stream(), driver.event()
    nop, kept = launch_row(driver.kernels()["nop"], stream)
    found = {}
    with driver.device_memory(4096) as memory, driver.pinned(4096) as host:
        calls: dict[str, tuple[str, tuple[int, ...]]] = {
            "launch": ("cuLaunchKernel", tuple(nop)),
            "copy": ("cuMemcpyHtoDAsync_v2", (memory, host, 64, stream)),
            "record": ("cuEventRecord", (event, stream)),
            "query": ("cuEventQuery", (event,)),
            "memory_info": ("cuMemGetInfo_v2", (host, host + 8)),
        }
        for name, (call, row) in calls.items():
            ns: list[float] = []
            for _ in range(batches):
                ns.append(statistics.median(timer.rows(call, [row] * BATCH)))
                driver.sync(stream)
            found[name] = statistics.median(ns)
    del kept
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
