"""Who wants all of the agent gets a refusal, and the others get served."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from moiety.agent.control import protocol
from moiety.agent.core.rate_limits import RateLimits
from moiety.testing.waiting import until
from tests.support.foreground import AgentProcess
from tests.support.system_agent import Users, conversing, system_agent
from tests.support.users import ALICE, BOB, Raised

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]

GIB = 1 << 30
ARGUMENTS = ["--turn-min", "1ms", "--linger", "0", "--arena", "64GiB", "--messages", "640"]
CREATE = "call.ask(protocol.CreateWorkload('x', ['x'], '/', Share()), protocol.Created).socket"
ANSWERED = "len(call.ask(protocol.Ps(), protocol.Processes).rows)"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    with system_agent(tmp_path_factory.mktemp("native"), ARGUMENTS, 16 * GIB) as running:
        yield running


@pytest.fixture
def users(agent: AgentProcess) -> Iterator[Users]:
    with conversing(agent.directory.path) as come:
        yield come


def test_conversations_of_one_user_have_an_end_and_others_are_answered(
    agent: AgentProcess, users: Users
) -> None:
    bob, alice = users(BOB), users(ALICE)
    most = RateLimits().conversations.each
    with pytest.raises(Raised, match="conversations with the agent") as refused:
        bob.do(f"calls = [call]\nfor _ in range({most}): calls.append(Call(there))")
    assert refused.value.kind == "TooMany"
    assert bob.do("len(calls)") == most
    assert alice.do(ANSWERED) == 0
    assert agent.status().gpus
    bob.do("while len(calls) > 1: calls.pop().close()")
    until(lambda: bob.do("Call(there).close()") is None)


def test_workloads_of_one_user_have_an_end(agent: AgentProcess, users: Users) -> None:
    bob, alice = users(BOB), users(ALICE)
    with pytest.raises(Raised, match="workloads, which is the limit of one user") as refused:
        bob.do(f"while True: {CREATE}")
    assert refused.value.kind == "TooMany"
    assert alice.do(CREATE)
    with agent.call() as root:
        root.ask(protocol.CreateWorkload("x", ["x"], "/"), protocol.Created)


def test_who_sends_without_end_and_who_says_nothing_keep_nobody_waiting(
    agent: AgentProcess, users: Users
) -> None:
    bob, alice = users(BOB), users(ALICE)
    # Given connections on which nothing is said,
    bob.do(f"path = {CREATE}; silent = [Shim(path) for _ in range(50)]")
    bob.do("raw = socket.socket(socket.AF_UNIX); raw.connect(str(there.control))")
    # and one on which as much is said as can be, each word worth a decision:
    bob.do(f"shim = Shim({CREATE}); shim.hello('flood'); shim.attach(uuid_of(0))")
    bob.tell(
        "shim.sock.settimeout(60)\ntry:\n"
        " while True: shim.send(LeaseNoteMessage(Type.BUSY, 0, 7))\n"
        "except OSError as error: how = error.errno"
    )
    # then others are served meanwhile,
    alice.do(f"shim = Shim({CREATE}); shim.hello('fine'); shim.attach(uuid_of(0))")
    for _ in range(20):
        alice.do("shim.allocated(0, 1 << 20)")
        assert alice.do(ANSWERED) == 2
    # who does not stop is hung up on with a word,
    bob.listen()
    with pytest.raises(Raised, match="Closed"):
        bob.do("while not any('does not stop' in str(m) for m in shim.inbox):"
               " shim.inbox.append(shim.receive())\nraise Closed")  # fmt: skip
    with agent.call() as root:
        happened = root.ask(protocol.Events(), protocol.Happened).events
    assert any("does not stop" in e.message and e.uid == BOB for e in happened)
    # and so is who says nothing.
    assert bob.do("silent[0].receive(30).text") == "it did not introduce itself"
    assert bob.do("raw.settimeout(30) or len(raw.recv(100))") == 0
    assert {row.program for row in agent.ps()} >= {"fine"}
