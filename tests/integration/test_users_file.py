"""What the system's file lets users have: held to while all runs on, and read again on demand."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.model.share import Share
from moiety.testing.waiting import until
from tests.support.foreground import AgentProcess
from tests.support.system_agent import Users, conversing
from tests.support.users import ALICE, BOB, OtherUser, Raised, open_folder

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]

GIB = 1 << 30
ARGUMENTS = ["--turn-min", "1ms", "--linger", "0", "--arena", "64GiB"]
RULES = f"""\
[agent]
visible = "all"

[users.{ALICE}]
gpu = 0.5
memory = "6GiB"
priority = "normal"
latency = false
workloads = 2

[defaults]
workloads = 0
"""
CREATE = (
    "call.ask(protocol.CreateWorkload('train', ['train'], '/', Share({share})), protocol.Created)"
    ".socket"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


@pytest.fixture
def file(folder: Path) -> Path:
    path = folder / "config.toml"
    path.write_text(RULES)
    return path


@pytest.fixture
def agent(folder: Path, pretended: Path, file: Path) -> Iterator[AgentProcess]:
    made = AgentProcess(folder / "s", pretended, ARGUMENTS, system=True)
    made.environment["MOIETY_CONFIG"] = str(file)
    with made as running:
        yield running


@pytest.fixture
def users(agent: AgentProcess) -> Iterator[Users]:
    with conversing(agent.directory.path) as come:
        yield come


def start(user: OtherUser, name: str, used: int = GIB, share: str = "") -> None:
    """A program of a user under the name `name`."""
    user.do(f"{name} = Shim({CREATE.format(share=share)})")
    user.do(f"{name}.hello(); {name}.attach(uuid_of(0)); {name}.allocated(0, {used})")


@pytest.mark.parametrize(
    ("share", "says", "line"),
    [
        ("gpu=0.6", "may have 50 % in all", 5),
        ("memory_bytes=7 << 30", "may have 6 GiB in all", 6),
        ("memory_limit_bytes=7 << 30", "more than 65001 may have, 6 GiB", 6),
        ("priority=2", "priority normal at most, not high", 7),
        ("latency=True", "no program of the latency class", 8),
    ],
)
def test_what_a_user_may_not_have_is_refused_by_rule_and_line(
    users: Users, file: Path, share: str, says: str, line: int
) -> None:
    alice = users(ALICE)
    with pytest.raises(Raised) as refused:
        alice.do(CREATE.format(share=share))
    assert refused.value.kind == "UserLimit"
    assert says in refused.value.text
    assert f"({file}:{line})" in refused.value.text


def test_a_user_is_on_no_gpu_but_its_own(agent: AgentProcess, users: Users, file: Path) -> None:
    alice = users(ALICE)
    for gpus in "10":
        file.write_text(RULES.replace("gpu = 0.5", f'gpus = "{gpus}"'))
        with agent.call() as call:
            call.ask(protocol.Reload(), protocol.Reloaded)
        if gpus == "1":  # which this machine does not have
            with pytest.raises(Raised, match="0 of the kind are here for you"):
                alice.do(CREATE.format(share=""))
    start(alice, "one")


def test_nobody_holds_a_gpu_for_as_long_as_it_likes(
    agent: AgentProcess, users: Users, file: Path
) -> None:
    """Also where no file says so: turns have an end, since others wait for it."""
    alice = users(ALICE)
    for rules, most in ((RULES, "10 s"), (RULES + 'quantum = "2s"\n', "2 s"), ("", "10 s")):
        file.write_text(rules)
        with agent.call() as call:
            call.ask(protocol.Reload(), protocol.Reloaded)
        with pytest.raises(Raised, match=f"turns of {most} at most, not 1 h") as refused:
            alice.do(CREATE.format(share="quantum_s=3600.0"))
        assert refused.value.kind == "UserLimit"
    alice.do(CREATE.format(share="quantum_s=10.0"))
    # Root may, as it may end the agent.
    with agent.call() as call:
        share = Share(quantum_s=3600.0)
        call.ask(protocol.CreateWorkload("train", ["train"], "/", share), protocol.Created)


def test_whoever_has_no_rule_has_the_default(users: Users, file: Path) -> None:
    with pytest.raises(Raised, match="may have no programs at one time") as refused:
        users(BOB).do(CREATE.format(share=""))
    assert f"({file}:12)" in refused.value.text


def test_all_programs_of_a_user_together_are_held_to_its_rule(
    agent: AgentProcess, users: Users, file: Path
) -> None:
    alice = users(ALICE)
    start(alice, "a", 2 * GIB)
    (row,) = agent.ps()
    assert (row.share.gpu_limit, row.limit_bytes) == (0.5, 6 * GIB)
    alice.do(f"b = Shim({CREATE.format(share='')})")
    alice.do("b.hello(); b.attach(uuid_of(0))")
    assert [row.share.gpu_limit for row in agent.ps()] == [0.25, 0.25]
    with pytest.raises(Raised) as refused:
        alice.do("b.allocated(0, 5 << 30)")
    assert f"65001 may have there, 6 GiB ({file}:6) (2 GiB in use)" in refused.value.text
    with pytest.raises(Raised, match="2 programs at one time"):
        alice.do(CREATE.format(share=""))
    # What one gives back the other has again.
    alice.do("b.send(AmountMessage(Type.DETACH, 0, 0, 0))")
    until(lambda: next(row for row in agent.ps() if row.gpu == 0).share.gpu_limit == 0.5)


def test_a_user_raises_its_own_share_within_the_file_only(
    agent: AgentProcess, users: Users
) -> None:
    alice = users(ALICE)
    start(alice, "a")
    change = "str(call.ask(protocol.SetShare('1', {}), protocol.Shared).share)"
    for more in ("gpu=0.6", "memory_limit_bytes=7 << 30", "priority=2", "latency=True"):
        with pytest.raises(Raised) as refused:
            alice.do(change.format(more))
        assert refused.value.kind == "UserLimit"
    assert "40 % of the GPU" in alice.do(change.format("gpu=0.4"))
    # A cap that it takes off itself leaves that of the file.
    alice.do(change.format("gpu_limit=1.0, memory_limit_bytes=None"))
    (row,) = agent.ps()
    assert (row.share.gpu, row.share.gpu_limit, row.limit_bytes) == (0.4, 0.5, 6 * GIB)


def test_the_file_is_read_again_without_losing_anybody(
    agent: AgentProcess, users: Users, file: Path
) -> None:
    alice = users(ALICE)
    start(alice, "a", 2 * GIB)
    file.write_text(RULES.replace("gpu = 0.5", "gpu = 0.25").replace("6GiB", "3GiB"))
    with pytest.raises(Raised, match="only root"):
        alice.do("call.ask(protocol.Reload(), protocol.Reloaded)")
    with agent.call() as call:
        call.ask(protocol.Reload(), protocol.Reloaded)
    (row,) = agent.ps()
    assert (row.share.gpu_limit, row.limit_bytes) == (0.25, 3 * GIB)
    assert row.allocated_bytes == 2 * GIB
    with pytest.raises(Raised, match="limit of 3 GiB"):
        alice.do("a.allocated(0, 2 << 30)")
    alice.do("a.allocated(0, 1 << 30)")


def test_memory_may_be_a_part_of_each_gpu(agent: AgentProcess, users: Users, file: Path) -> None:
    file.write_text(RULES.replace("6GiB", "25%"))
    with agent.call() as call:
        call.ask(protocol.Reload(), protocol.Reloaded)
    alice = users(ALICE)
    start(alice, "a", 2 * GIB)
    (row,) = agent.ps()
    most = row.limit_bytes or 0
    assert 3 * GIB < most <= 4 * GIB, "a quarter of what is shared of 16 GiB"
    alice.do(f"b = Shim({CREATE.format(share='')})")
    alice.do("b.hello(); b.attach(uuid_of(0))")
    with pytest.raises(Raised) as refused:
        alice.do("b.allocated(0, 2 << 30)")
    assert f"65001 may have there, 25 % of its memory ({file}:6) (2 GiB in use)" in (
        refused.value.text
    )
    alice.do("b.send(AmountMessage(Type.DETACH, 0, 0, 0))")
    change = "str(call.ask(protocol.SetShare('1', {}), protocol.Shared).share)"
    for more in ("memory_limit_part=0.3", "memory_limit_bytes=5 << 30", "memory_bytes=5 << 30"):
        with pytest.raises(Raised) as refused:
            alice.do(change.format(more))
        assert refused.value.kind == "UserLimit", more
    alice.do(change.format("memory_limit_part=0.2"))
    (row,) = (each for each in agent.ps() if each.allocated_bytes)
    assert row.limit_bytes == pytest.approx(most * 0.8)


def test_a_broken_file_is_refused_and_the_old_one_stays(
    agent: AgentProcess, users: Users, file: Path
) -> None:
    alice = users(ALICE)
    start(alice, "a")
    for wrong, says in (
        ("[users.x]\ngpux = 1\n", "no such setting"),
        ("[users.x]\ngpu = 7\n", "users.x.gpu"),
        ("[users", "not TOML"),
    ):
        file.write_text(wrong)
        with agent.call() as call, pytest.raises(Exception, match=says):
            call.ask(protocol.Reload(), protocol.Reloaded)
    assert agent.process
    agent.process.send_signal(signal.SIGHUP)
    with agent.call() as call:
        until(
            lambda: (
                "ReloadRefused"
                in [e.reason for e in call.ask(protocol.Events(), protocol.Happened).events]
            )
        )
    (row,) = agent.ps()
    assert row.share.gpu_limit == 0.5
    with pytest.raises(Raised, match="may have 50 % in all"):
        alice.do(CREATE.format(share="gpu=0.6"))


def test_the_service_manager_hears_of_a_reload(folder: Path, pretended: Path, file: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(15)

        def heard(wanted: str) -> str:
            while True:
                found = manager.recv(4096).decode()
                if found.startswith(wanted):
                    return found

        made = AgentProcess(folder / "s", pretended, ARGUMENTS, system=True)
        made.environment |= {"NOTIFY_SOCKET": str(folder / "notify"), "MOIETY_CONFIG": str(file)}
        with made as agent:
            assert agent.process
            assert f"MAINPID={agent.process.pid}" in heard("READY=1")
            agent.process.send_signal(signal.SIGHUP)
            heard("RELOADING=1")
            heard("READY=1")
            assert agent.signal(signal.SIGTERM) == 0
            assert "SIGTERM" in heard("STOPPING=1")
        assert not agent.directory.control.exists()
