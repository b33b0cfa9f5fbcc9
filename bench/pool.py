"""The pool's server with 100,000 workloads in its queue: submissions, lists, memory, a new server.

Nothing is started: a program has all GPUs, so that each submission waits and is decided about.
Every submission is durable before its answer. The clients are connections of one process, each
with one request at a time; the environment of a submission has 3 KiB, as those of people have.
What one write to the disk takes is measured beside single submissions, each of which needs one.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import msgspec
import psutil

from bench.figure import Figure
from moiety.pool.client import PoolClient
from moiety.pool.model.records import Accepted, PoolStatus, Submission, WorkPage
from moiety.pool.paths import PoolPaths
from moiety.testing.node import Node
from tests.support.native import native_dir
from tests.support.pool_node import PoolNode

GPU: Final = "8xA100-80:memory=96MiB"
QUEUED: Final = int(os.environ.get("MOIETY_POOL_QUEUED", "100000"))
CONNECTIONS: Final = 32
SINGLE: Final = 300
"""Submissions of one client whose times are looked at, while all others wait."""
PAGES: Final = 50
COMMIT_BYTES: Final = 32 << 10
"""What a commit of one submission adds to the store's log."""
ENVIRONMENT: Final = {f"VARIABLE_{i}": "x" * 80 for i in range(32)}


def submission(**values: object) -> Submission:
    """A program that would end at once."""
    asked: dict[str, object] = {
        "program": "/bin/true",
        "argv": ["true"],
        "cwd": "/tmp",
        "environment": ENVIRONMENT,
        "stdout": "/dev/null",
    }
    return Submission(**(asked | values))  # type: ignore[arg-type]


def request() -> bytes:
    """One submission as the bytes of HTTP."""
    body = msgspec.json.encode(submission())
    head = f"POST /v1/workloads HTTP/1.1\r\nHost: pool\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def submit_many(paths: PoolPaths, number: int) -> float:
    """Submit this many over several connections; returns the seconds that it took."""
    left = number
    wanted = request()

    async def connection() -> None:
        nonlocal left
        reading, writing = await asyncio.open_unix_connection(str(paths.socket))
        while left > 0:
            left -= 1
            writing.write(wanted)
            head = await reading.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 201"), head
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            await reading.readexactly(length)
        writing.close()

    began_s = time.monotonic()
    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    return time.monotonic() - began_s


@contextmanager
def full_pool() -> Iterator[PoolNode]:
    """A pool whose GPUs are all given to one program."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Node(Path(folder), GPU, native=native_dir()) as node,
    ):
        node.start_agent()
        pool = PoolNode(node)
        try:
            pool.up()
            with closing(PoolClient(pool.paths)) as asking:
                asked = submission(program="/bin/sleep", argv=["sleep", "3600"], gpus=8)
                first = asking.post("/workloads", Accepted, asked).id
            pool.until_state(first, "running")
            yield pool
        finally:
            pool.close()


def measure() -> list[Figure]:
    """Fill the queue, and look at what single requests take beside it."""
    with full_pool() as pool:
        took_s = asyncio.run(submit_many(pool.paths, QUEUED))
        with closing(PoolClient(pool.paths)) as asking:
            single, synced = [], []
            for _ in range(SINGLE):
                single.append(_timed(asking))
                synced.append(_synced(pool.paths.folder / "written"))
            listed = [_page(asking, at) for at in range(PAGES)]
        memory_mib = _memory_mib(pool)
        pool.kill()
        began_s = time.monotonic()
        pool.up()
        with closing(PoolClient(pool.paths)) as asking:
            status = asking.get("/status", PoolStatus)
        ready_s = time.monotonic() - began_s
        assert status.counts["pending"] == QUEUED + SINGLE, "nothing is lost"
    device = f"simgpu, {QUEUED} queued"
    return [
        Figure("pool_submissions_per_s", QUEUED / took_s, "/s", 1000, "higher", device, QUEUED),
        Figure(
            "pool_submit_p99_ms", quantiles(single, n=100)[98] * 1e3, "ms", 20, "lower", device,
            SINGLE,
            note=f"median {median(single) * 1e3:.1f}; the disk: median "
            f"{median(synced) * 1e3:.1f}, p99 {quantiles(synced, n=100)[98] * 1e3:.1f}",
        ),
        Figure("pool_list_ms", median(listed) * 1e3, "ms", 50, "lower", device, PAGES),
        Figure("pool_pss_mib", memory_mib, "MiB", 250, "lower", device, 1),
        Figure("pool_ready_s", ready_s, "s", 3, "lower", device, 1, note="with `moiety up`"),
    ]  # fmt: skip


def _timed(asking: PoolClient) -> float:
    began_s = time.perf_counter()
    asking.post("/workloads", Accepted, submission())
    return time.perf_counter() - began_s


def _synced(path: Path) -> float:
    """The seconds in which the disk takes what a commit of one submission writes."""
    with path.open("ab") as file:
        began_s = time.perf_counter()
        file.write(bytes(COMMIT_BYTES))
        file.flush()
        os.fdatasync(file.fileno())
        return time.perf_counter() - began_s


def _memory_mib(pool: PoolNode) -> float:
    """The proportional memory of the server and of all that it started but supervisors."""
    server = psutil.Process(int(pool.paths.lock.read_text().removeprefix("pid ")))
    below = [each for each in server.children(recursive=True) if _is_ours(each)]
    return sum(int(each.memory_full_info().pss) for each in (server, *below)) / (1 << 20)


def _is_ours(process: psutil.Process) -> bool:
    return any(word.startswith("moiety.pool") for word in process.cmdline())


def _page(asking: PoolClient, at: int) -> float:
    began_s = time.perf_counter()
    page = asking.get("/workloads", WorkPage, after=at * QUEUED // PAGES, limit=100)
    assert len(page.rows) == 100
    return time.perf_counter() - began_s
