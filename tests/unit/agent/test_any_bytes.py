"""The agent's conversation under fire: nobody's nonsense ends it, holds it up or hurts others."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.arbiter.settings import Settings
from moiety.wire.messages import HelloMessage
from tests.support.chaos import lie
from tests.support.virtual_agent import CAPACITY, World, no_descriptor_stays
from tests.support.virtual_process import VirtualProcess

SENDINGS = st.lists(st.one_of(st.binary(max_size=300), st.integers(0, 1 << 32)), max_size=30)


def begin(here: World) -> VirtualProcess:
    """An honest program that holds its lease and has memory."""
    honest = here.begin()
    honest.attach(0, 1, CAPACITY)
    here.settle()
    honest.allocate(0, [2, 2])
    honest.touch()
    here.until_rest(0.2)
    assert honest.is_open
    return honest


def seen(here: World, process: VirtualProcess) -> tuple[int, int, int]:
    """What the agent believes that it has."""
    assert here.agent is not None
    (view,) = [v for v in here.agent.arbiter.tenants() if v.tenant == process.tenant]
    on = view.gpus[0]
    return on.allocated_bytes, on.resident_bytes, on.residue_bytes


@settings(max_examples=150, deadline=None)
@given(st.booleans(), SENDINGS)
def test_whatever_somebody_sends(greets: bool, sendings: list[bytes | int]) -> None:
    with (
        no_descriptor_stays(),
        World(Random(1), Settings(1000, turn_factor=0.0, revoke_deadline_s=1.0)) as here,
    ):
        here.start_agent()
        honest = begin(here)
        before = seen(here, honest)
        pid = here.begin_liar()
        sock = here.connect(pid)
        assert sock is not None
        here.liars[pid] = sock
        packets = [HelloMessage(pid=pid, program="liar").encode()] if greets else []
        packets += [s if isinstance(s, bytes) else lie(Random(s), here.uuids) for s in sendings]
        for packet in packets:
            try:
                sock.send(packet)
            except OSError:
                break  # the agent has hung up
            here.settle()
        assert seen(here, honest) == before
        here.check()
        here.end_liar(pid)
        for _ in range(8):  # the lease, if somebody asked for its place, comes back
            honest.touch()
            here.until_rest(0.5)
        assert honest.is_open
        assert seen(here, honest) == before
        here.kill(honest)
        here.until_rest(3.0)
        here.check_empty()
