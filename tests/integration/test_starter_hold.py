"""A starter makes the process of a supervisor before it begins, and takes one server after another.

A server can so have something done for that process (a share, say), and name it in the spec.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from moiety.agent.system import file_lock
from moiety.pool.starter.programs import (
    ALREADY_STARTED,
    Held,
    StarterSocket,
    StartRefusal,
)
from moiety.pool.starter.records import Exited, FailedToStart
from moiety.testing.waiting import DEADLINE_S, until
from tests.support.starters import LONG, begin, events_of, finish, kill, pool_with, refusal
from tests.support.workloads import OTHER_UID, Pool, Workload, is_running, is_the_same, until_ended

IS_ROOT = os.getuid() == 0


@pytest.fixture
def here() -> Iterator[Pool]:
    with pool_with("session") as made:
        yield made


def answer(starter: StarterSocket) -> Held | StartRefusal:
    assert select.select([starter], [], [], DEADLINE_S)[0], "no answer comes"
    found = starter.answer()
    assert found is not None
    return found


def hold(starter: StarterSocket, workload: Workload) -> Held:
    starter.hold(workload.spec.id)
    found = answer(starter)
    assert isinstance(found, Held), found
    assert is_the_same(found.process.pid, found.process.start_ticks)
    return found


def is_announced(workload: Workload) -> bool:
    return file_lock.is_held(workload.folder / "launch")


def test_the_process_that_is_held_becomes_the_supervisor(here: Pool) -> None:
    starter, workload = here.starter(), here.workload(LONG)
    held = hold(starter, workload)
    assert is_announced(workload)
    assert not (workload.folder / "started").exists()
    begin(starter, workload)
    here.told.line()
    assert workload.started().supervisor == held.process
    assert not is_announced(workload), "it has the workload's own lock"
    os.kill(held.process.pid, signal.SIGTERM)
    finish(starter)
    assert workload.exit().attempt == 1


@pytest.mark.parametrize("how", ["give_up", "close", "term"])
def test_what_is_held_ends_without_a_word(here: Pool, how: str) -> None:
    starter, workload, other = here.starter(), here.workload(LONG), here.workload(LONG)
    held, kept = hold(starter, workload), hold(starter, other)
    assert held.process != kept.process
    if how == "give_up":
        starter.give_up(workload.spec.id)
        until_ended(held.process.pid)
        assert is_running(kept.process.pid)
        until(lambda: not is_announced(workload), "its lock is free")
        assert hold(starter, workload).process != held.process
    elif how == "term":
        starter.process.terminate()
    finish(starter)
    assert not any(is_running(each.process.pid) for each in (held, kept))
    assert not (workload.folder / "exit").exists(), "nothing was started, so nothing has ended"


def test_what_is_held_ends_with_its_starter(here: Pool) -> None:
    starter, workload, other = here.starter(), here.workload(LONG), here.workload(LONG)
    first, second = hold(starter, workload), hold(starter, other)
    kill(starter.process.pid)
    for held in (first, second):
        until_ended(held.process.pid)
    assert not (workload.folder / "started").exists()


def test_a_second_hold_is_refused_and_a_wrong_spec_ends_the_first(here: Pool) -> None:
    starter, workload = here.starter(), here.workload()
    held = hold(starter, workload)
    starter.hold(workload.spec.id)
    found = answer(starter)
    assert isinstance(found, StartRefusal)
    assert found.number == errno.EEXIST
    starter.start(workload.spec.id)
    assert refusal(starter).number == errno.ENOENT, "there is no spec"
    until_ended(held.process.pid)
    starter.give_up(workload.spec.id)
    assert refusal(starter).number == errno.ESRCH
    finish(starter)


def test_one_that_was_started_is_not_started_again(here: Pool) -> None:
    starter, workload = here.starter(), here.workload("exit 3")
    begin(starter, workload)
    with events_of(workload) as events:
        events.until((workload.folder / "exit").exists)
    hold(starter, workload)
    begin(starter, workload)
    assert refusal(starter).number == 1000 + ALREADY_STARTED
    finish(starter)
    assert workload.exit().outcome == Exited(3)


@pytest.mark.skipif(not IS_ROOT, reason="only root can act as several users")
def test_the_servers_own_user_runs_no_workload(here: Pool) -> None:
    workload = here.workload("exit 0", stdout=None, cwd="/")
    workload.write_spec()
    for path in (here.folder / "pool", workload.folder, workload.folder / "spec"):
        os.chown(path, OTHER_UID, OTHER_UID)
    starter = here.starter()
    starter.hold(workload.spec.id)
    assert isinstance(answer(starter), Held)
    starter.start(workload.spec.id)
    finish(starter)
    assert workload.exit().outcome == FailedToStart(errno.EPERM, "uid: Operation not permitted")


class Listening:
    """A starter with a name, to which servers connect."""

    def __init__(self, here: Pool) -> None:
        self.path = here.folder / "starter.sock"
        self.made: list[StarterSocket] = []
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
            pytest.MonkeyPatch.context() as patch,
        ):
            listener.bind(str(self.path))
            self.path.chmod(0o666)
            patch.setattr(socket, "socketpair", lambda *_: (socket.socket(), listener.dup()))
            self.process = here.starter().process
        until(self.connect, "it listens")

    def close(self) -> None:
        for each in self.made:
            each.close()

    def connect(self) -> StarterSocket | None:
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            raw.connect(str(self.path))
        except OSError:
            raw.close()
            return None
        self.made.append(StarterSocket(raw))
        return self.made[-1]


@pytest.fixture
def listening(here: Pool) -> Iterator[Listening]:
    with closing(Listening(here)) as made:
        yield made


def connected(listening: Listening) -> StarterSocket:
    made = listening.connect()
    assert made is not None
    return made


def test_a_new_server_connects_and_what_the_last_one_held_is_given_up(
    here: Pool, listening: Listening
) -> None:
    first, second = here.workload(LONG), here.workload(LONG)
    old = connected(listening)
    first.write_spec()
    old.start(first.spec.id)
    pid = int(here.told.line())
    held = hold(old, second)
    second.write_spec()
    new = connected(listening)  # the old one is cut off, as a server that was replaced
    assert hold(new, here.workload()).process != held.process
    until_ended(held.process.pid)
    assert is_running(pid)
    with pytest.raises(EOFError):
        answer(old)
    until(lambda: not is_announced(second), "its lock is free")
    assert hold(new, second).process != held.process
    new.end()
    os.kill(first.started().supervisor.pid, signal.SIGTERM)
    assert listening.process.wait(DEADLINE_S) == 0
    assert listening.connect() is None


@pytest.mark.skipif(not IS_ROOT, reason="only root can act as several users")
def test_only_the_owner_of_the_pool_is_a_server(here: Pool, listening: Listening) -> None:
    starter = connected(listening)
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(OTHER_UID, OTHER_UID, OTHER_UID)
            stranger = listening.connect()
            assert stranger is not None
            try:
                answer(stranger)
            except EOFError:
                os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert isinstance(hold(starter, here.workload()), Held), "the server was not cut off"
    starter.end()
    assert listening.process.wait(DEADLINE_S) == 0
