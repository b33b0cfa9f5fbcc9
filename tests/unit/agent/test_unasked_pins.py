"""A process whose memory cannot leave any more is told on its terminal which call it was."""

from __future__ import annotations

from random import Random

import pytest

from moiety.arbiter import instructions as do
from moiety.arbiter.settings import Settings
from moiety.wire.messages import PinnedMessage, WarningMessage
from tests.support.liar import Liar
from tests.support.virtual_agent import World

TEXT = "shuts out another program for 10 s: its memory cannot leave the GPU since it called cuFoo"


@pytest.mark.parametrize("kill", [False, True])
def test_who_shuts_another_out_is_told_which_call_it_was(kill: bool) -> None:
    with World(Random(1), Settings(1000)) as here:
        agent = here.start_agent()
        process = Liar(here)
        process.say(PinnedMessage(reason="cuFoo"))
        (number,) = agent.clients.by_number
        for _ in range(5):
            agent.executor.carry_out(do.Overdue(number, 10.0, do.PINNED))
        agent.executor.carry_out(do.Overdue(number, 10.0, do.PINNED, kill=kill))
        told = [e.message for e in agent.journal.ring if e.reason == "Overdue"]
        assert set(told) == {TEXT}
        lines = [message.text for message in process.heard(WarningMessage)]
        assert set(lines) == {f"this program {TEXT}"}
        assert len(lines) == len(told) < 5, "a terminal gets a few lines"
        assert here.kernel.killed == [process.pid] * kill
