"""A wish is answered by a decision, and by nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from moiety.kube.checkpoint import CLAIM, Assignment, Slot
from moiety.kube.growth import GrowthAnnouncer
from moiety.kube.model import names
from moiety.kube.pod_reconciler import PodReconciler
from moiety.kube.pods import Pod, Pods
from moiety.model.errors import AgentSilent, AgentStopping, MemoryAboveGpu, MoietyError, NoAgent
from moiety.model.share import Share
from tests.support.kube_shares import UUIDS, PlayedShares, manager

WISH = "gpu=0.6"


class Allows:
    """The guard, growth and events of a reconciler: everything may be, and events are noted."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def check_resize(self, *_: Any) -> None:
        pass

    @contextlib.asynccontextmanager
    async def announced(self, wished: Assignment) -> AsyncIterator[None]:
        del wished
        yield

    async def tell(self, about: Pod, reason: str, note: str, *, warning: bool) -> str:
        del about, note, warning
        self.told.append(reason)
        return reason


def reconciler(folder: Path) -> tuple[PodReconciler, PlayedShares, Allows]:
    shares, agent = manager(folder)
    allows = Allows()
    pods = Pods(cast("Any", None), "a", lambda _: None)
    pods.by_uid["u"] = Pod("team", "train", "u", {names.RESIZE: WISH}, {"train/": ("main",)})
    growth = cast("GrowthAnnouncer", allows)
    nothing, any_ = cast("Any", None), cast("Any", allows)
    found = PodReconciler(shares, pods, nothing, any_, any_, growth, structlog.get_logger())
    return found, agent, allows


def given() -> Assignment:
    slot = Slot("gpu-0", UUIDS[0], 30.0)
    return Assignment(
        "k8s-c", CLAIM, "c", [slot], Share(gpu=0.3), namespace="team", claim="train", pods=["u"]
    )


@pytest.mark.parametrize(
    "away", [NoAgent("/run/moiety"), AgentSilent("it hung up"), AgentStopping()], ids=str
)
def test_a_wish_waits_for_an_agent_that_is_away(tmp_path: Path, away: MoietyError) -> None:
    async def story() -> None:
        found, agent, allows = reconciler(tmp_path)
        await found.shares.give([given()])
        errors = [away]
        agent.fail = lambda *_: errors.pop() if errors else None
        await found.see()
        assert (allows.told, errors) == ([], [])
        await found.see()
        assert allows.told == ["Resized"]
        assert found.shares.assignments["k8s-c"].share.gpu == 0.6

    asyncio.run(story())


def test_a_wish_that_the_agent_refuses_is_refused_once(tmp_path: Path) -> None:
    async def story() -> None:
        found, agent, allows = reconciler(tmp_path)
        await found.shares.give([given()])
        errors = [MemoryAboveGpu(2 << 30, 1 << 30)]
        agent.fail = lambda *_: errors.pop() if errors else None
        await found.see()
        await found.see()
        assert allows.told == ["ResizeRefused"]
        assert found.shares.assignments["k8s-c"].share.gpu == 0.3

    asyncio.run(story())
