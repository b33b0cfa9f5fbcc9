"""The requests about one claim follow each other, however many there are."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import structlog

from moiety.kube.dra import DraDriver
from moiety.kube.protocol import dra_v1_pb2 as dra_pb
from moiety.kube.share_manager import ShareManager
from moiety.testing.waiting import Changes


class Held:
    """Shares whose removal waits for the test, and that notes the requests about each claim."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.begun: list[str] = []
        self.open: list[str] = []
        self.let: set[int] = set()
        """The numbers of the requests that may end."""
        self.ledger = self.checkpoint = self

    def of_claim(self, uid: str) -> list[Any]:
        return [SimpleNamespace(name=uid)]

    async def take_back(self, names: list[str]) -> None:
        (name,) = names
        assert name not in self.open, "two requests about one claim at one time"
        number = len(self.begun)
        self.begun.append(name)
        self.open.append(name)
        self.changes.tell()
        await self.changes.until(lambda: number in self.let)
        self.open.remove(name)

    def end(self, *numbers: int) -> None:
        self.let |= set(numbers)
        self.changes.tell()


def test_a_request_that_comes_while_another_waits_waits_as_well() -> None:
    shares = Held()
    nothing = cast("Any", None)
    driver = DraDriver("a", nothing, cast("ShareManager", shares), nothing, structlog.get_logger())

    async def story() -> None:
        def unprepare(uid: str) -> asyncio.Task[Any]:
            claim = dra_pb.Claim(namespace="team", name="train", uid=uid)
            request = dra_pb.NodeUnprepareResourcesRequest(claims=[claim])
            return asyncio.create_task(driver.node_unprepare_resources(request))

        first, second = unprepare("u-1"), unprepare("u-1")
        await shares.changes.until(lambda: shares.begun == ["u-1"])
        shares.end(0)
        await first
        await shares.changes.until(lambda: shares.begun == ["u-1"] * 2)
        third = unprepare("u-1")
        other = unprepare("u-2")  # it comes later, and does not wait
        await shares.changes.until(lambda: "u-2" in shares.begun)
        shares.end(1, 2, 3)
        await asyncio.gather(second, third, other)
        assert shares.begun == ["u-1", "u-1", "u-2", "u-1"]
        assert not driver._busy, "a claim that is done with costs nothing"

    asyncio.run(asyncio.wait_for(story(), 20))
