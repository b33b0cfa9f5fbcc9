"""One agent for several users of a machine. Other users are played by root: only root can."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.agent.control.protocol import Processes, Ps
from moiety.agent.core.journal_events import Event
from moiety.agent.system.paths import find
from moiety.model import errors
from moiety.testing.waiting import until
from tests.support.foreground import AgentProcess, pretended_native
from tests.support.system_agent import Users, conversing
from tests.support.users import ALICE, BOB, OtherUser, Raised, open_folder

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]

GIB = 1 << 30
ARGUMENTS = ["--turn-min", "1ms", "--linger", "0", "--arena", "64GiB"]
CREATE = (
    "made = call.ask(protocol.CreateWorkload('secret.py', ['secret.py', '--key=1'], '/', {share}), "
    "protocol.Created); shim = Shim(made.socket)"
)
JOIN = "shim.hello('secret.py'); shim.attach(uuid_of(0)); shim.allocated(0, {used})"


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretended_native(tmp_path_factory.mktemp("native"), 16 * GIB, 16 * GIB)


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


@pytest.fixture
def agent(folder: Path, pretended: Path) -> Iterator[AgentProcess]:
    with AgentProcess(folder / "s", pretended, ARGUMENTS, system=True) as running:
        yield running


@pytest.fixture
def users(folder: Path) -> Iterator[Users]:
    """Users who have a conversation with the agent, under the name `call`."""
    environment = dict(os.environ) | {"MOIETY_SYSTEM_DIR": str(folder / "s")}
    with conversing(folder / "s", environment) as come:
        yield come


def holding(users: Users, uid: int, used: int = GIB, share: str = "Share()") -> OtherUser:
    """A user with a program that has memory."""
    user = users(uid)
    user.do(CREATE.format(share=share))
    user.do(JOIN.format(used=used))
    return user


def test_each_users_programs_are_that_users(agent: AgentProcess, users: Users) -> None:
    holding(users, ALICE)
    holding(users, BOB)
    assert {row.uid for row in agent.ps()} == {ALICE, BOB}
    assert agent.status().shared
    workloads = agent.directory.workloads
    assert stat.S_IMODE(workloads.stat().st_mode) == 0o711
    assert all(f.stat().st_uid == 0 for f in workloads.iterdir())


def test_nobody_comes_to_anothers_socket(agent: AgentProcess, users: Users) -> None:
    alice = holding(users, ALICE)
    bob = users(BOB)
    path = alice.do("made.socket")
    with pytest.raises(Raised, match="Permission") as refused:
        bob.do(f"Shim({path!r}, connect=False).connect(0)")
    assert refused.value.kind == "PermissionError"
    for look in (f"os.listdir({str(agent.directory.workloads)!r})",
                 f"open({str(Path(path).parent / 'workload.json')!r})",
                 f"open({str(agent.directory.log)!r})",
                 f"open({str(agent.directory.events)!r})"):  # fmt: skip
        with pytest.raises(Raised, match="Permission"):
            bob.do(look)
    # Nor can its owner put something else where the agent will write.
    with pytest.raises(Raised, match="Permission"):
        alice.do(f"os.unlink({path!r})")


def test_nor_does_a_socket_that_can_be_reached_let_a_stranger_in(
    agent: AgentProcess, users: Users
) -> None:
    alice = holding(users, ALICE)
    bob = users(BOB)
    path = Path(alice.do("made.socket"))
    path.parent.chmod(0o755)
    path.chmod(0o666)
    bob.do(f"shim = Shim({str(path)!r})")
    with pytest.raises(Raised) as refused:
        bob.do("shim.hello('stranger')")
    assert refused.value.kind in ("Closed", "ConnectionResetError", "BrokenPipeError")
    assert [(row.uid, row.pid) for row in agent.ps()] == [(ALICE, alice.pid)]


def test_others_see_who_and_how_much_and_not_what(agent: AgentProcess, users: Users) -> None:
    alice = holding(users, ALICE)
    bob = holding(users, BOB, 2 * GIB)
    found = bob.do(
        "[(r.uid, r.user, r.program, r.pid, r.workload, r.allocated_bytes)"
        " for r in call.ask(protocol.Ps(), protocol.Processes).rows]"
    )
    pid = bob.pid
    workload = Path(bob.do("made.socket")).parent.name
    assert sorted(found) == [
        (ALICE, str(ALICE), "", 0, "", GIB),
        (BOB, str(BOB), "secret.py", pid, workload, 2 * GIB),
    ]
    everything = bob.do("str(call.ask(protocol.Events(), protocol.Happened).events)")
    recorded = bob.do("str(call.ask(protocol.TimelineRequest(), protocol.Recorded))")
    for told in (everything, recorded):
        assert str(bob.pid) in told
        assert str(alice.pid) not in told
    assert str(ALICE) in recorded
    with pytest.raises(Raised, match="only root may read what this agent decided"):
        bob.do("call.ask(protocol.EventRecording(), protocol.RecordingPage)")
    with agent.call() as root:
        assert {row.program for row in root.ask(Ps(), Processes).rows} == {"secret.py"}


@pytest.mark.usefixtures("agent")
def test_what_one_waits_for_does_not_tell_what_the_other_runs(users: Users) -> None:
    holding(users, ALICE, 12 * GIB)
    bob = users(BOB)
    bob.do(CREATE.format(share="Share()"))
    bob.do("shim.hello('secret.py'); shim.attach(uuid_of(0)); serial = shim.alloc(0, 12 << 30)")
    look = (
        f"[r.reason for r in call.ask(protocol.Ps(), protocol.Processes).rows if r.uid == {BOB}][0]"
    )
    reason = until(lambda: bob.do(look), "a reason")
    assert f"tenant 1 of {ALICE}" in reason
    assert "secret" not in reason


def test_only_its_owner_and_root_change_a_program(agent: AgentProcess, users: Users) -> None:
    holding(users, ALICE)
    bob = holding(users, BOB)
    number = next(row.tenant for row in agent.ps() if row.uid == ALICE)
    change = "call.ask(protocol.SetShare({!r}, gpu_limit=0.5), protocol.Shared).share.gpu_limit"
    with pytest.raises(Raised, match=f"program of {ALICE}") as refused:
        bob.do(change.format(str(number)))
    assert refused.value.kind == "NotAllowed"
    own = next(row.tenant for row in agent.ps() if row.uid == BOB)
    assert bob.do(f"str({change.format(str(own))})") == "0.5"
    with agent.call() as root:
        root.ask(protocol.SetShare(str(number), gpu_limit=0.25), protocol.Shared)


def test_programs_of_others_are_not_in_the_way_of_ones_own(
    agent: AgentProcess, users: Users
) -> None:
    holding(users, ALICE)
    bob = holding(users, BOB)
    change = "call.ask(protocol.SetShare('secret.py', gpu_limit=0.5), protocol.Shared)"
    pid = bob.do(f"str({change}.pid)")
    assert [row.uid for row in agent.ps() if str(row.pid) == pid] == [BOB]


@pytest.mark.parametrize(
    "share",
    ["gpu=-5.0", "gpu_limit=0.0", "memory_bytes=-(1 << 40)", "memory_limit_bytes=-1"],
)
def test_no_share_gives_more_by_being_less_than_nothing(
    agent: AgentProcess, users: Users, share: str
) -> None:
    """Commands send none such; what is sent is made past what checks them."""
    alice = users(ALICE)
    field, _, value = share.partition("=")
    alice.do(f"share = Share(); object.__setattr__(share, {field!r}, {value})")
    with pytest.raises(Raised, match="is not a"):
        alice.do("call.ask(protocol.CreateWorkload('a', [], '/', share), protocol.Created)")
    with pytest.raises(Raised, match="is not a"):
        alice.do("call.ask(protocol.CreateContainer('a', share), protocol.Contained)")
    assert agent.status().workloads == 0


def test_who_does_not_give_way_is_fenced(agent: AgentProcess) -> None:
    """Unless an administrator says otherwise."""
    assert agent.status().settings["overdue"] == "fence"


def test_where_it_is_told_to_the_agent_ends_who_does_not_give_way_whoever_it_is(
    folder: Path, pretended: Path, users: Users
) -> None:
    late = ["--revoke-deadline", "100ms", "--idle-min", "1ms", "--overdue", "kill"]
    with AgentProcess(folder / "s", pretended, [*ARGUMENTS, *late], system=True) as agent:
        bob, alice = holding(users, BOB, 12 * GIB), users(ALICE)
        alice.do(CREATE.format(share="Share()"))
        alice.do("shim.hello('x'); shim.attach(uuid_of(0)); serial = shim.alloc(0, 12 << 30)")
        alice.do("shim.want(); shim.reply(serial, AmountMessage, 30)")
        assert {row.uid for row in agent.ps()} == {ALICE}
        with pytest.raises((Raised, BrokenPipeError)):
            bob.do("shim.tenant")
        assert "Killed" in {e.reason for e in events(agent)}


def events(agent: AgentProcess) -> list[Event]:
    with agent.call() as call:
        return call.ask(protocol.Events(), protocol.Happened).events


@pytest.mark.parametrize(
    "request_",
    [
        "Stop(force=True)",
        "SetAgent({'turn_min_s': '1s'})",
        "SetAgent({}, defaults=True)",
        "GuaranteeNamespaces({'team': 0.5})",
    ],
)
def test_only_root_rules_the_agent(agent: AgentProcess, users: Users, request_: str) -> None:
    alice = users(ALICE)
    with pytest.raises(Raised, match="only root") as refused:
        alice.do(f"call.ask(protocol.{request_}, protocol.Done)")
    assert refused.value.kind == "NotAllowed"
    assert agent.status().gpus


def test_the_socket_can_be_for_chosen_ones_only(
    folder: Path, pretended: Path, users: Users
) -> None:
    only = [*ARGUMENTS, "--socket-mode", "0660", "--socket-group", str(ALICE)]
    with AgentProcess(folder / "s", pretended, only, system=True):
        users(ALICE)
        with pytest.raises(Raised, match="does not let you in") as refused:
            users(BOB)
    assert refused.value.kind == "NotAllowed"
    assert "--socket-group" in refused.value.hint


def test_a_gang_is_of_one_user_whatever_others_call_theirs(
    agent: AgentProcess, users: Users
) -> None:
    create = "call.ask(protocol.CreateWorkload('x', ['x'], '/', gang=Gang('train', 2)), "
    for uid in (ALICE, BOB):
        user = users(uid)
        user.do("from moiety.model.gang import Gang")
        user.do(f"shim = Shim({create}protocol.Created).socket); shim.hello('x')")
    assert {row.gang for row in agent.ps()} == {f"u{ALICE}.train", f"u{BOB}.train"}


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_is_followed_by_one_that_knows_whose_all_is(
    agent: AgentProcess, users: Users, end: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = holding(users, ALICE)
    assert agent.signal(end) == (0 if end == signal.SIGTERM else -end)
    # Nobody takes the GPU of programs that are there, for want of an agent.
    monkeypatch.setenv("MOIETY_CONFIG", "")
    monkeypatch.setenv("MOIETY_SYSTEM_DIR", str(agent.directory.path))
    assert find() == agent.directory
    with pytest.raises(errors.NoAgent, match="no agent of all users"):
        agent.call()
    agent.start()
    alice.tell("shim.resume(holding=True); shim.attach(uuid_of(0), 1 << 30, 1 << 30)")
    alice.listen()
    row = until(lambda: next((r for r in agent.ps() if r.gpu == 0), None), "the program")
    assert (row.uid, row.allocated_bytes) == (ALICE, GIB)
    bob = users(BOB)
    with pytest.raises(Raised, match="Permission"):
        bob.do(f"Shim({alice.do('made.socket')!r}, connect=False).connect(0)")


def test_a_users_own_agent_does_not_take_the_systems_gpus(
    agent: AgentProcess, folder: Path, pretended: Path
) -> None:
    own = AgentProcess(folder / "own", pretended)
    code, said = own.refusal()
    assert code == errors.GpuOwned.exit_code
    assert agent.process
    assert f"pid {agent.process.pid}, user root, directory {folder / 's'}" in said
    assert "MOIETY_AGENT=system" in said
    agent.signal(signal.SIGKILL)  # the kernel lets go of what a dead agent had
    with own:
        assert own.status().gpus


def test_who_does_not_own_the_directory_is_not_taken_for_its_agent(
    folder: Path, users: Users
) -> None:
    (folder / "s").mkdir()
    os.chmod(folder / "s", 0o777)
    path = str(folder / "s" / "control.sock")
    with OtherUser(BOB, os.environ) as mallory:
        mallory.do(f"s = socket.socket(socket.AF_UNIX); s.bind({path!r})")
        mallory.do(f"s.listen(); os.chmod({path!r}, 0o666)")
        with pytest.raises(Raised, match="another user") as refused:
            users(ALICE)
    assert refused.value.kind == "AgentNotYours"


def test_a_share_for_containers_is_its_makers(agent: AgentProcess, users: Users) -> None:
    assert agent.directory.shared
    alice, bob = users(ALICE), users(BOB)
    alice.do("row = call.ask(protocol.CreateContainer('train'), protocol.Contained).row")
    inside = "os.stat(row.folder + '/socket/shim.sock').st_size"
    assert alice.do(inside) == 0, "her own container runtime can mount it"
    bob.do(f"row = ContainerRow('train', {ALICE}, Share(), '', '{alice.do('row.folder')}')")
    with pytest.raises(Raised, match="PermissionError"):
        bob.do(inside)
    with pytest.raises(Raised, match="AgentNotYours"):
        bob.do("call.ask(protocol.RemoveContainer('train'), protocol.Contained)")
    with pytest.raises(Raised, match="AgentNotYours"):
        bob.do("call.ask(protocol.CreateContainer('train'), protocol.Contained)")
    assert bob.do("call.ask(protocol.Containers(), protocol.ContainerRows).rows") == []
    with pytest.raises(Raised, match="PermissionError"):
        alice.do("open(row.folder + '/workload.json.new', 'w')")


def test_no_share_for_containers_takes_a_programs_name(agent: AgentProcess, users: Users) -> None:
    alice, bob = users(ALICE), users(BOB)
    alice.do(CREATE.format(share="Share()"))
    name = alice.do("made.id")
    with pytest.raises(Raised, match="known by"):
        bob.do(f"call.ask(protocol.CreateContainer({name!r}), protocol.Contained)")
    alice.do("shim.hello('secret.py')")
    assert [row.workload for row in agent.ps()] == [name]


def test_nobody_makes_shares_without_end(agent: AgentProcess, users: Users) -> None:
    alice = users(ALICE)
    make = "[call.ask(protocol.CreateContainer(f's{i}'), protocol.Contained) for i in range(5000)]"
    with pytest.raises(Raised, match="which is the limit of one user"):
        alice.do(make)
    assert agent.status().workloads < 5000
