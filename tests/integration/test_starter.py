"""A starter starts workloads by their ids, and nothing else."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Iterator

import pytest

from moiety.pool.starter.programs import ALREADY_STARTED, StartRefusal
from moiety.pool.starter.records import (
    EndReason,
    Exited,
    FailedToStart,
)
from moiety.testing.waiting import DEADLINE_S
from tests.support.starters import LONG, begin, finish, pool_with, refusal
from tests.support.workloads import (
    Pool,
    is_running,
)

IS_ROOT = os.getuid() == 0


@pytest.fixture(params=["cgroup", "session"])
def here(request: pytest.FixtureRequest) -> Iterator[Pool]:
    with pool_with(request.param) as made:
        yield made


@pytest.fixture
def plain() -> Iterator[Pool]:
    with pool_with("session") as made:
        yield made


def test_it_starts_what_it_is_told_and_ends_after_the_last(here: Pool) -> None:
    starter = here.starter()
    first, second = here.workload("exit 3"), here.workload("echo hello")
    begin(starter, first)
    begin(starter, second)
    finish(starter)
    assert first.exit().outcome == Exited(3)
    assert second.exit().outcome == Exited(0)
    assert here.log.read_text() == "hello\n"


def test_it_goes_on_without_its_server_and_a_new_one_leaves_alone_what_runs(here: Pool) -> None:
    old = here.starter()
    workload = here.workload(LONG)
    begin(old, workload)
    pid = int(here.told.line())
    old.close()
    new = here.starter()
    new.start(workload.spec.id)
    assert refusal(new).number == 1000 + ALREADY_STARTED
    assert is_running(pid)
    assert old.process.poll() is None
    os.kill(workload.started().supervisor.pid, signal.SIGTERM)
    assert old.process.wait(DEADLINE_S) == 0
    assert workload.exit().reason is EndReason.CANCELLED
    new.start(workload.spec.id)
    assert refusal(new).number == 1000 + ALREADY_STARTED
    finish(new)


@pytest.mark.parametrize(
    "name", ["", "../w0", "w0/", ".", "..", "w0\0", "w 0", "x" * 65, "x" * 2000, "-w0", "wö0"]
)
def test_only_ids_are_taken(plain: Pool, name: str) -> None:
    starter = plain.starter()
    plain.workload("echo it runs").write_spec()
    starter.start(name)
    assert refusal(starter) == StartRefusal("-", errno.EINVAL, "not an id of a workload")
    finish(starter)
    assert not plain.log.exists()


def test_a_descriptor_that_comes_along_is_not_kept(plain: Pool) -> None:
    starter = plain.starter()
    reader, writer = os.pipe()
    connection = socket.socket(fileno=os.dup(starter.fileno()))
    socket.send_fds(connection, [b"no such"], [writer])
    os.close(writer)
    assert refusal(starter).number == errno.EINVAL
    assert os.read(reader, 1) == b""
    os.close(reader)
    connection.close()
    finish(starter)


def test_what_is_not_there_is_refused(plain: Pool) -> None:
    starter = plain.starter()
    starter.start("nothing")
    assert refusal(starter) == StartRefusal("nothing", errno.ENOENT, "No such file or directory")
    starter.start(plain.workload().spec.id)
    assert refusal(starter).number == errno.ENOENT
    finish(starter)


@pytest.mark.parametrize("what", ["folder", "spec"])
def test_links_are_not_followed(plain: Pool, what: str) -> None:
    starter, workload = plain.starter(), plain.workload("echo it runs")
    workload.write_spec()
    if what == "folder":
        elsewhere = plain.folder / "elsewhere"
        workload.folder.rename(elsewhere)
        workload.folder.symlink_to(elsewhere)
    else:
        elsewhere = plain.folder / "elsewhere"
        (workload.folder / "spec").rename(elsewhere)
        (workload.folder / "spec").symlink_to(elsewhere)
    starter.start(workload.spec.id)
    assert refusal(starter).number in (errno.ELOOP, errno.ENOTDIR)
    finish(starter)
    assert not plain.log.exists()


@pytest.mark.parametrize("what", ["folder", "spec"])
def test_what_others_can_write_is_refused(plain: Pool, what: str) -> None:
    starter, workload = plain.starter(), plain.workload("echo it runs")
    workload.write_spec()
    path = workload.folder if what == "folder" else workload.folder / "spec"
    path.chmod(0o777)
    starter.start(workload.spec.id)
    assert refusal(starter) == StartRefusal(
        workload.spec.id, errno.EPERM, "Operation not permitted"
    )
    path.chmod(0o755)
    if IS_ROOT:
        os.chown(path, 65020, 65020)
        starter.start(workload.spec.id)
        assert refusal(starter).number == errno.EPERM
    finish(starter)
    assert not plain.log.exists()


def test_a_pool_that_others_can_write_is_refused(plain: Pool) -> None:
    (plain.folder / "pool").chmod(0o777)
    assert plain.starter().process.wait(DEADLINE_S) == 71


def test_a_spec_of_another_workload_is_refused(plain: Pool) -> None:
    starter, workload = plain.starter(), plain.workload("echo it runs")
    other = plain.workload("echo it runs")
    other.write_spec()
    (other.folder / "spec").rename(workload.folder / "spec")
    starter.start(workload.spec.id)
    assert refusal(starter).number == errno.EINVAL
    finish(starter)
    assert not plain.log.exists()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"uid": 0, "gid": 0}, "uid: Operation not permitted"),
        ({"gid": 0}, "groups: Operation not permitted"),
        ({"groups": (65033, 42)}, "groups: Operation not permitted"),  # shadow, on Debian
        ({"uid": 1, "gid": 1, "groups": (1, 0)}, "groups: Operation not permitted"),
        ({"uid": 1, "gid": 1, "groups": (1,)}, None),
        ({}, None),
    ],
)
def test_a_server_that_is_not_root_gets_no_rights_that_the_user_lacks(
    plain: Pool, changes: dict[str, object], text: str | None
) -> None:
    if not IS_ROOT:
        pytest.skip("there is no other user")
    workload = plain.workload("exit 0", stdout=None)
    workload.write_spec(**{"cwd": "/", **changes})
    os.chown(plain.folder / "pool", 65020, 65020)
    os.chown(workload.folder, 65020, 65020)
    os.chown(workload.folder / "spec", 65020, 65020)
    starter = plain.starter()
    starter.start(workload.spec.id)
    finish(starter)
    expected = Exited(0) if text is None else FailedToStart(errno.EPERM, text)
    assert workload.exit().outcome == expected
    assert (workload.folder / "exit").stat().st_uid == 65020
