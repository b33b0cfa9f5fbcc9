"""Lags stay with owners and workloads, whichever of their tenants want time."""

from __future__ import annotations

import math

import pytest

from moiety.arbiter.schedule.lags import DEBT_FADES_S, FADES_S, Lags, Members
from moiety.arbiter.schedule.owners import path, weights
from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import State
from moiety.model.share import Priority

GPU = 0


class Class:
    """The tenants of one class on one GPU, by name; the first letter is the owner."""

    def __init__(self, **lags_s: float) -> None:
        self.lags = Lags()
        self.now_s = 0.0
        self.tenants = {
            name: Tenant(n, owner=name[0], workload=name[:2], gpus={GPU: Residency(0, 0, lag_s=s)})
            for n, (name, s) in enumerate(lags_s.items(), start=1)
        }
        self.pairs: Members = []
        self.change(*self.tenants)
        for name, lag_s in lags_s.items():
            self.tenants[name].gpus[GPU].lag_s = lag_s

    def change(self, *names: str) -> None:
        """From now on these want time."""
        now = [self.tenants[name] for name in names]
        paths = {tenant.number: path(tenant) for tenant in now}
        pairs = list(zip(now, weights([path(t) for t in now]), strict=True))
        self.lags.leave(GPU, self.pairs, set(paths), set(), self.now_s)
        there = {tenant.number for tenant, _ in self.pairs}
        self.lags.come(GPU, pairs, there, paths, self.now_s)
        self.lags.change(paths, self.tenants.values(), self.now_s)
        self.pairs = pairs

    def lag_s(self, name: str) -> float:
        return self.tenants[name].gpus[GPU].lag_s

    def of_owner(self, owner: str) -> float:
        names = {tenant.number: name for name, tenant in self.tenants.items()}
        return sum(self.lag_s(n) for t, _ in self.pairs if (n := names[t.number])[0] == owner)


def test_a_tenant_that_stops_leaves_its_lag_to_its_owner() -> None:
    the = Class(a1=-3.0, a2=1.0, b1=2.0)
    the.change("a2", "b1")
    assert the.lag_s("a2") == pytest.approx(-2.0)
    assert the.lag_s("b1") == pytest.approx(2.0)


def test_it_leaves_it_to_its_workload_first() -> None:
    the = Class(a1x=-3.0, a1y=1.0, a2=0.0, b1=2.0)
    the.change("a1y", "a2", "b1")
    assert the.lag_s("a1y") == pytest.approx(-2.0)
    assert the.lag_s("a2") == 0.0


def test_the_last_of_an_owner_takes_the_lag_along_and_it_fades() -> None:
    the = Class(a1=-3.0, b1=1.0, c1=2.0)
    the.change("b1", "c1")
    assert the.lag_s("b1") + the.lag_s("c1") == pytest.approx(0.0)
    the.now_s = FADES_S
    the.change("a1", "b1", "c1")
    assert the.lag_s("a1") == pytest.approx(-3.0 / math.e)


@pytest.mark.parametrize(
    ("lag_s", "state", "fades_s"),
    [
        (-3.0, State.QUEUED, DEBT_FADES_S),
        (-3.0, State.IDLE, FADES_S),
        (3.0, State.QUEUED, FADES_S),
    ],
)
def test_what_one_is_ahead_lasts_while_it_works_in_another_class(
    lag_s: float, state: State, fades_s: float
) -> None:
    the = Class(a1=lag_s, b1=-lag_s / 3, c1=-2 * lag_s / 3)
    tenant = the.tenants["a1"]
    tenant.state, tenant.usage.class_rank = state, Priority.HIGH
    the.change("b1", "c1")
    the.now_s = FADES_S
    tenant.usage.class_rank = Priority.NORMAL
    the.change("a1", "b1", "c1")
    assert the.lag_s("a1") == pytest.approx(lag_s * math.exp(-FADES_S / fades_s))
    assert not the.lags._debts


def test_a_debt_is_forgotten_in_the_end() -> None:
    the = Class(a1=-3.0, b1=1.0, c1=2.0)
    the.tenants["a1"].state = State.QUEUED
    the.tenants["a1"].usage.class_rank = Priority.HIGH
    the.change("b1", "c1")
    assert the.lags._debts
    the.now_s = 9 * DEBT_FADES_S
    the.change("b1")
    assert not the.lags._debts


def test_another_program_of_the_owner_gets_it() -> None:
    the = Class(a1=-3.0, b1=1.0, c1=2.0, a2=0.0)
    the.change("a1", "b1", "c1")
    left_s = the.of_owner("a")
    the.change("b1", "c1")
    the.change("a2", "b1", "c1")
    assert left_s < -1
    assert the.lag_s("a2") == pytest.approx(left_s)


def test_a_newcomer_has_its_part_of_its_owners_lag() -> None:
    the = Class(a1=-3.0, b1=3.0)
    the.tenants["a2"] = Tenant(3, owner="a", workload="a2", gpus={GPU: Residency(0, 0)})
    the.change("a1", "a2", "b1")
    assert the.lag_s("a1") == the.lag_s("a2") == pytest.approx(-1.5)
    assert the.lag_s("b1") == pytest.approx(3.0)


def test_by_how_much_a_process_differs_from_its_workload_comes_back() -> None:
    the = Class(a1x=-3.0, a1y=1.0, b1=2.0)
    the.change("a1y", "b1")
    the.change("a1x", "a1y", "b1")
    assert the.lag_s("a1x") == pytest.approx(-3.0)
    assert the.lag_s("a1y") == pytest.approx(1.0)


def test_what_a_program_that_ended_had_is_what_the_others_lack() -> None:
    the = Class(a1=-3.0, a2=1.0, b1=2.0)
    del the.tenants["a1"].gpus[GPU]
    the.change("a2", "b1")
    assert the.lag_s("a2") == pytest.approx(-2.0)


def test_an_owner_that_is_gone_is_forgotten() -> None:
    the = Class(a1=-3.0, b1=1.0, c1=2.0)
    the.change("b1", "c1")
    the.now_s = 20 * FADES_S
    the.change("b1")
    assert not the.lags._kept.keys() - {(GPU, Priority.NORMAL, ("c",))}
