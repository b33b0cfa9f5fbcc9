"""A wish is answered by a decision, and units of a running pod stay with it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from moiety.kube.checkpoint import CLAIM, UNITS, Assignment, Slot
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


def test_units_of_a_pod_stay_until_it_has_ended_whatever_a_new_kubelet_says(
    tmp_path: Path,
) -> None:
    units = [f"{UUIDS[0]}.p{number:02}" for number in range(30)]
    slots = [Slot("gpu-0", UUIDS[0], 30.0)]
    share = Share(gpu=0.3)

    def of(name: str, *pods: str) -> Assignment:
        return Assignment(name, UNITS, "x", slots, share, units=units, pods=list(pods))

    async def story() -> None:
        found, _, _ = reconciler(tmp_path)
        pods, shares = found.pods, found.shares
        await shares.give([of("k8s-u-runs", "u"), of("k8s-u-unseen"), of("k8s-u-gone", "gone")])
        await found.see([])  # the API server has not said which pods there are
        assert len(shares.assignments) == 3
        pods.known = True
        await found.see([])  # the kubelet has started, and has no pod yet
        assert set(shares.assignments) == {"k8s-u-runs"}
        pods.by_uid["u"] = dataclasses.replace(pods.by_uid["u"], has_ended=True)
        await found.see([])
        assert not shares.assignments

    asyncio.run(story())
