"""A pool of all users of a machine: each one's work runs as that user, and is that user's alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from moiety.agent.system.processes import owner_of
from moiety.pool.machine.root_part import starter_pid
from moiety.pool.model.states import WorkState
from moiety.pool.starter.records import Started, read_started
from moiety.testing.waiting import until
from tests.support.machine_pool import ACCOUNT, MachinePool, machine_pool
from tests.support.users import ALICE, BOB, OtherUser, Raised
from tests.support.workloads import is_running, until_ended

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]


@pytest.fixture
def pool(native: Path) -> Iterator[MachinePool]:
    with machine_pool(native, ADMINS) as made:
        yield made


ADMINS = 'admins = "65003"'
CAROL = 65003
FORGED = """
from moiety.pool.client import PoolClient
connection = PoolClient()._connection._connection
connection.request("POST", {path!r}, {body!r}, {{"X-Forwarded-For": "0"}})
status = connection.getresponse().status
"""
"""A request that no command sends."""
BEYOND = """
{"program": "/bin/true", "argv": ["true"], "cwd": "/", "rlimits": {"RTPRIO": [99, 99]}}
"""


def test_work_runs_as_its_user_and_is_that_users_alone(pool: MachinePool) -> None:
    setting = pool.setting
    with ExitStack() as stack:
        alice, bob = (stack.enter_context(setting.user(uid)) for uid in (ALICE, BOB))
        out = setting.folder / "out"
        code, said, err = setting.moiety(
            alice, "submit", "--name", "secret", "--log", f"{out}/%j.log", "--",
            "/bin/sh", "-c", "id -u; echo $MOIETY_SOCKET",
        )  # fmt: skip
        assert (code, said) == (0, "submitted workload 1\n"), err
        row = pool.ended(1)
        assert (row.state, row.uid) == (WorkState.DONE, ALICE), row.reason
        uid, socket = (out / "1.log").read_text().split()
        assert uid == str(ALICE)
        assert socket.startswith(str(setting.folder / "s"))
        assert (out / "1.log").stat().st_uid == ALICE

        code, said, err = setting.moiety(bob, "history", "-o", "json")
        assert code == 0, err
        (seen,) = json.loads(said)
        assert (seen["name"], seen["command"], seen["stdout"]) == ("", "", "")
        code, _, err = setting.moiety(bob, "logs", "1")
        assert (code, "workload 1 is of" in err) == (77, True), err
        code, *_ = setting.moiety(alice, "submit", "-q", "--hold", "--gpus", "0", "--", "/bin/true")
        assert code == 0
        for act in ("cancel", "release", "hold"):
            code, _, err = setting.moiety(bob, act, "2")
            assert (code, "you may not" in err) == (77, True), err
        assert setting.moiety(alice, "cancel", "2")[0] == 0
        code, _, err = setting.moiety(alice, "submit", "--priority", "1", "--", "/bin/true")
        assert (code, "only root and 65003 may give work a priority above 0" in err) == (
            77,
            True,
        ), err
        code, _, err = setting.moiety(bob, "cancel", "secret")
        assert (code, "the pool has no workload secret" in err) == (66, True), err
        for path, body, status in (("/v1/stop", "", 403), ("/v1/workloads", BEYOND, 400)):
            bob.do(FORGED.format(path=path, body=body))
            assert bob.do("status") == status, path
        code, _, err = setting.moiety(bob, "down")
        assert (code, "only root and 65003 may end the pool" in err) == (77, True), err
        assert "the pool is down" in pool.as_root("down")


def submit(pool: MachinePool, user: OtherUser, script: str, *options: str) -> int:
    """A user submits a script of the shell."""
    log = f"{pool.setting.folder}/out/%j.log"
    code, said, err = pool.setting.moiety(
        user, "submit", "-q", "--log", log, *options, "--", "/bin/sh", "-c", script
    )
    assert code == 0, err
    return int(said)


def started(pool: MachinePool, number: int) -> Started:
    """What the supervisor of a workload has written."""
    found = until(lambda: read_started(pool.paths.of_workload(number)), "it has begun")
    assert isinstance(found, Started)
    return found


def gate(pool: MachinePool) -> tuple[str, Path]:
    """A script that says that it runs and waits for a file, and that file."""
    path = pool.setting.folder / "out" / "open"
    return f"echo runs; until [ -e {path} ]; do sleep 0.02; done", path


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def server_pid(pool: MachinePool) -> int:
    return int(pool.paths.lock.read_text().removeprefix("pid "))


def test_the_server_is_no_root_and_starts_all_through_the_starter(pool: MachinePool) -> None:
    script, opens = gate(pool)
    with pool.setting.user(ALICE) as alice:
        number = submit(pool, alice, script)
        pool.until_state(number, "running")
        supervisor, child = started(pool, number).supervisor, started(pool, number).child
        server, starter = server_pid(pool), starter_pid(pool.paths)
        assert starter is not None
        assert [owner_of(pid) for pid in (server, starter, supervisor.pid)] == [ACCOUNT, 0, 0]
        until(lambda: owner_of(child.pid) == ALICE, "it has become its user")
        assert parent_of(supervisor.pid) == starter, "no program is a child of the server"
        opens.touch()
        assert pool.ended(number).state is WorkState.DONE


def test_what_runs_goes_on_whatever_is_killed(pool: MachinePool) -> None:
    script, opens = gate(pool)
    with pool.setting.user(ALICE) as alice:
        numbers = [submit(pool, alice, script, "--gpu", "0.2") for _ in range(2)]
        for number in numbers:
            pool.until_state(number, "running")
        before = [started(pool, number) for number in numbers]
        first = starter_pid(pool.paths)
        for kill in (
            [pool.kill],
            [pool.kill_starter],
            [pool.kill, pool.kill_starter],
            [pool.kill_starter, pool.kill],
        ):
            for each in kill:
                each()
            pool.as_root("up")
            assert [started(pool, number) for number in numbers] == before
            assert all(is_running(each.child.pid) for each in before)
            later = submit(pool, alice, "true", "--gpu", "0.2")
            assert pool.ended(later).state is WorkState.DONE, "the new ones know each other"
        assert starter_pid(pool.paths) != first
        assert pool.as_root("cancel", str(numbers[0]))
        assert pool.ended(numbers[0]).state is WorkState.CANCELLED
        opens.touch()
        assert pool.ended(numbers[1]).state is WorkState.DONE
        assert (pool.setting.folder / "out" / f"{numbers[1]}.log").read_text() == "runs\n"


def test_while_there_is_no_starter_work_waits(pool: MachinePool) -> None:
    with pool.setting.user(ALICE) as alice:
        pool.kill_starter()
        number = submit(pool, alice, "echo ran")
        until(lambda: "the starter of this pool does not answer" in pool.log(), "it is said")
        assert pool.row(number).state is WorkState.PENDING
        pool.as_root("up")
        row = pool.ended(number)
        assert (row.state, row.failures) == (WorkState.DONE, 0)


@pytest.mark.parametrize("both", [False, True])
def test_a_killed_supervisor_is_settled_by_a_starter(pool: MachinePool, both: bool) -> None:
    with pool.setting.user(ALICE) as alice:
        script = f"(setsid sleep 1000 & echo $!) >{pool.setting.folder}/out/pid; exec sleep 1000"
        number = submit(pool, alice, script, "--grace", "0.1s")
        pool.until_state(number, "running")
        below = pool.setting.folder / "out" / "pid"
        until(lambda: below.exists() and below.read_text().endswith("\n"), "it has a child")
        found = started(pool, number)
        if both:
            pool.kill_starter()
        os.kill(found.supervisor.pid, 9)
        if both:
            pool.as_root("up")
        row = pool.ended(number)
        assert (row.state, row.exit_code) == (WorkState.FAILED, None)
        assert "its supervisor was killed" in row.reason
        assert not is_running(found.child.pid)
        assert both or not is_running(int(below.read_text()))


def test_down_ends_both_and_a_new_pool_takes_over(pool: MachinePool) -> None:
    script, opens = gate(pool)
    with pool.setting.user(ALICE) as alice, pool.setting.user(CAROL) as carol:
        number = submit(pool, alice, script)
        pool.until_state(number, "running")
        server, starter = server_pid(pool), starter_pid(pool.paths)
        assert starter is not None
        code, said, err = pool.setting.moiety(carol, "down")
        assert (code, "1 workload runs on" in said) == (0, True), err
        until_ended(server)
        assert starter_pid(pool.paths) is None, "it takes no server any more"
        assert is_running(starter), "it is the parent of what runs"
        pool.as_root("up")
        opens.touch()
        assert pool.ended(number).state is WorkState.DONE
        until_ended(starter)
        pool.as_root("down")
        assert starter_pid(pool.paths) is None


def test_root_and_the_account_itself_run_nothing(pool: MachinePool) -> None:
    refused = pool.run("submit", "--", "/bin/true")
    assert refused.returncode == 77
    assert "starts no programs of root" in refused.stderr
    with pool.setting.user(ACCOUNT) as account:
        code, _, err = pool.setting.moiety(account, "submit", "--", "/bin/true")
        assert (code, "starts no programs of its own account" in err) == (77, True), err
        code, _, err = pool.setting.moiety(account, "down")
        assert (code, "only root and 65003 may" in err) == (77, True), err


UNUSABLE = {
    "nobody": "other services run as that user",
    "65534": "other services run as that user",
    "root": "must not be root",
    "no-such-user": "useradd --system --no-create-home",
}


def test_accounts_that_others_use_and_folders_of_others_are_refused(pool: MachinePool) -> None:
    pool.as_root("down")
    config = pool.setting.folder / "other.toml"
    for user, why in UNUSABLE.items():
        config.write_text(f'[pool]\nuser = "{user}"\n')
        refused = pool.run("up", MOIETY_CONFIG=str(config))
        assert (refused.returncode, why in refused.stderr) == (78, True), refused.stderr
    config.write_text('[pool]\nuser = "65021"\n')
    refused = pool.run("up", MOIETY_CONFIG=str(config))
    assert "belongs to user 65020, and the pool serves as 65021" in refused.stderr


SHARE = """
call.ask(protocol.CreateWorkload("x", ["x"], "/", pid={pid}, uid={uid}), protocol.Created).id
"""


def test_only_the_account_makes_shares_in_the_name_of_others(pool: MachinePool) -> None:
    """The agent knows it by the settings of root; what it may name is no program of root's."""
    path = str(pool.setting.folder / "s")
    root, refusal = os.getpid(), "only root may start programs for other users"

    def asks(user: OtherUser, pid: int, uid: int) -> str:
        user.do(f"call = Call(Directory(Path({path!r}), shared=True))")
        try:
            return str(user.do(SHARE.format(pid=pid, uid=uid).strip()))
        except Raised as error:
            return error.text

    with ExitStack() as stack:
        alice, bob, carol, account = (
            stack.enter_context(pool.setting.user(uid)) for uid in (ALICE, BOB, CAROL, ACCOUNT)
        )
        for user in (alice, carol):
            assert refusal in asks(user, user.pid, BOB)
            assert "is not a process of yours" in asks(user, root, BOB)
        assert len(asks(account, root, ALICE)) == 8
        assert "only root may start programs" in asks(account, account.pid, 0)
        assert bob.do("1") == 1, "until now its process may still be root's"
        assert "is not a process of yours" in asks(account, bob.pid, ALICE)
        assert "is not a process of yours" in asks(account, root, -1)


SUSPEND = "call.ask(protocol.SuspendWorkload({name!r}), protocol.WorkloadSuspended).workload"


def test_the_pool_suspends_what_it_has_started_and_nothing_else(pool: MachinePool) -> None:
    script, opens = gate(pool)
    with pool.setting.user(ALICE) as alice, pool.setting.user(ACCOUNT) as account:
        number = submit(pool, alice, script)
        pool.until_state(number, "running")
        assert pool.as_root("suspend", str(number))
        pool.until_state(number, "suspended")
        code, _, err = pool.setting.moiety(alice, "resume", str(number))
        assert code == 0, err
        pool.until_state(number, "running")
        for user in (alice, account):
            path = str(pool.setting.folder / "s")
            user.do(f"call = Call(Directory(Path({path!r}), shared=True))")
        own = alice.do(SHARE.format(pid=alice.pid, uid=ALICE).strip())
        with pytest.raises(Raised):
            account.do(SUSPEND.format(name=own))
        opens.touch()
        assert pool.ended(number).state is WorkState.DONE


def test_a_user_makes_the_time_of_running_work_shorter_and_an_administrator_longer(
    pool: MachinePool,
) -> None:
    script, opens = gate(pool)
    with pool.setting.user(ALICE) as alice, pool.setting.user(BOB) as bob:
        number = submit(pool, alice, script, "--gpus", "0", "--time", "2h")
        pool.until_state(number, "running")
        for user, limit, expected in ((bob, "1h", 77), (alice, "3h", 77), (alice, "1h", 0)):
            code, _, err = pool.setting.moiety(user, "update", str(number), "--time", limit)
            assert code == expected, err
        assert "may give work that runs more time" in pool.setting.moiety(
            alice, "update", str(number), "--time", "90min"
        )[2]  # fmt: skip
        assert pool.row(number).time_limit_s == 3600.0
        pool.as_root("update", str(number), "--time", "5h")
        assert pool.row(number).time_limit_s == 18000.0
        opens.touch()
        assert pool.ended(number).state is WorkState.DONE
