"""A gang counts as one tenant: its members, its GPUs, its class and its lag."""

from __future__ import annotations

from moiety.arbiter.state.gang import are_mates, firsts, gpus_of, is_among, level, mates
from moiety.arbiter.state.residency import Residency
from moiety.arbiter.state.tenant import Tenant, TenantGang
from moiety.model.share import NOTHING_ASKED, Priority, Share


def tenant(number: int, *gpus: int, share: Share = NOTHING_ASKED) -> Tenant:
    return Tenant(number, gpus={gpu: Residency(0, 0) for gpu in gpus}, share=share)


def gang(*members: Tenant, size: int = 0) -> TenantGang:
    made = TenantGang("together", size, list(members))
    for member in members:
        member.gang = made
    return made


def test_a_tenant_in_no_gang_is_alone() -> None:
    alone = tenant(1, 0, 2)
    assert list(mates(alone)) == [alone]
    assert gpus_of(alone) == {0, 2}
    assert not are_mates(alone, alone)


def test_a_gang_has_the_gpus_of_all_its_members() -> None:
    one, other, alone = tenant(1, 0), tenant(2, 1), tenant(3, 2)
    gang(one, other)
    assert list(mates(one)) == [one, other]
    assert gpus_of(other) == {0, 1}
    assert are_mates(one, other)
    assert not are_mates(one, alone)
    assert is_among(one, [other])
    assert not is_among(alone, [one, other])


def test_the_first_of_each_gang_stands_for_it() -> None:
    one, other, alone = tenant(1), tenant(2), tenant(3)
    gang(one, other)
    assert list(firsts([other, alone, one])) == [other, alone]


def test_all_members_are_in_the_highest_class() -> None:
    low, high = tenant(1), tenant(2, share=Share(priority=Priority.HIGH))
    level(gang(low, high))
    assert low.usage.rank == high.usage.rank == high.share.rank > low.share.rank


def test_its_lag_is_that_of_one_tenant_on_its_gpus() -> None:
    one, other = tenant(1, 0), tenant(2, 0, 1)
    gang(one, other)
    one.gpus[0].lag_s, other.gpus[0].lag_s, other.gpus[1].lag_s = 1.0, 2.0, 3.0
    assert one.lag_s == other.lag_s == 3.0


def test_it_waits_for_its_size_until_it_begins() -> None:
    waiting = gang(tenant(1), size=3)
    assert waiting.missing == 2
    waiting.is_begun = True
    assert waiting.missing == 0
