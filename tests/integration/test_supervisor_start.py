"""A supervisor starts a workload as its user, and writes down what it did."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.pool.starter.programs import (
    SUPERVISOR,
    program,
    spec_file,
    start_supervisor,
)
from moiety.pool.starter.records import (
    Damaged,
    EndReason,
    Exited,
    FailedToStart,
    Signaled,
    read_exit,
)
from moiety.pool.starter.spec import encoded
from moiety.testing.waiting import DEADLINE_S
from tests.support.users import open_folder
from tests.support.workloads import (
    OTHER_GID,
    OTHER_UID,
    Pool,
    pool,
)

IS_ROOT = os.getuid() == 0
CAP_SYS_RESOURCE = 24


@pytest.fixture
def here() -> Iterator[Pool]:
    with open_folder() as folder, pool(folder) as made:
        yield made


def failure(here: Pool, **changes: object) -> FailedToStart:
    outcome = here.workload("echo it runs").run(**changes).outcome
    assert isinstance(outcome, FailedToStart)
    return outcome


def test_both_records_say_what_there_is_to_know(here: Pool) -> None:
    workload = here.workload("echo $$ >$TOLD; echo hello; exit 3")
    process = workload.start()
    pid = int(here.told.line())
    assert process.wait(DEADLINE_S) == 0
    started, ended = workload.started(), workload.exit()
    assert (started.attempt, ended.attempt) == (1, 1)
    assert started.supervisor.pid == process.pid
    assert started.child.pid == pid
    assert started.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert started.processes == "session"
    assert started.limits == set()
    assert ended.outcome == Exited(3)
    assert ended.reason is EndReason.ENDED
    assert started.begin_s == ended.begin_s <= ended.end_s
    assert ended.max_rss_kib > 0
    assert here.log.read_text() == "hello\n"


def test_the_start_times_are_those_of_the_processes(here: Pool) -> None:
    workload = here.workload("cat /proc/$$/stat >$TOLD")
    workload.run()
    assert workload.started().child.start_ticks == int(here.told.line().split()[21])


def test_a_signal_is_told_apart_from_an_exit_code(here: Pool) -> None:
    ended = here.workload("kill -SEGV $$").run()
    assert ended.outcome == Signaled(signal.SIGSEGV)
    assert ended.reason is EndReason.ENDED


def test_processor_time_is_that_of_all_processes(here: Pool) -> None:
    spin = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
    ended = here.workload(f"({spin}) & wait").run()
    assert ended.user_s > 0.005


def test_it_runs_as_the_user_in_the_folder_with_what_was_asked_for(here: Pool) -> None:
    groups = (OTHER_GID, 65010) if IS_ROOT else ()
    script = 'id -u; id -g; id -G; pwd; umask; ulimit -Sn; ulimit -Hn; echo "$X"; cat'
    given = here.folder / "out" / "input"
    given.write_text("what is read\n")
    workload = here.workload(
        script,
        groups=groups,
        umask=0o027,
        environment={"X": "a b\nc", "PATH": "/usr/bin:/bin"},
        resource_limits={"NOFILE": (50, 60)},
        stdin=str(given),
    )
    assert workload.run().outcome == Exited(0)
    uid, gid, known, cwd, umask, soft, hard, *rest = here.log.read_text().splitlines()
    assert (int(uid), int(gid)) == (OTHER_UID, OTHER_GID)
    if IS_ROOT:
        assert {int(group) for group in known.split()} == set(groups)
    assert cwd == str(here.folder / "out")
    assert (umask, soft, hard) == ("0027", "50", "60")
    assert rest == ["a b", "c", "what is read"]


def test_every_limit_has_its_name(here: Pool) -> None:
    names = [
        name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"
    ]
    hard = {name: resource.getrlimit(getattr(resource, name))[1] for name in names}
    workload = here.workload(
        "exit 0", resource_limits={name[7:]: (value, value) for name, value in hard.items()}
    )
    assert workload.run().outcome == Exited(0)


def test_the_program_leads_a_session_and_begins_with_all_signals_as_usual(here: Pool) -> None:
    workload = here.workload(arguments=("/bin/cat", "/proc/self/stat", "/proc/self/status"))
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        workload.run()
    finally:
        signal.signal(signal.SIGUSR2, before)
    first, *status = here.log.read_text().splitlines()
    pid, after = int(first.split()[0]), first.rpartition(")")[2].split()
    assert [int(each) for each in after[2:4]] == [pid, pid]
    masks = {
        line.split()[0]: int(line.split()[1], 16)
        for line in status
        if line[:6] in ("SigBlk", "SigIgn")
    }
    assert (masks["SigBlk:"], masks["SigIgn:"]) == (0, 0)


def test_the_program_gets_no_new_privileges_unless_that_is_asked_for(here: Pool) -> None:
    for allowed, expected in ((False, "1"), (True, "0")):
        workload = here.workload(
            arguments=("/bin/grep", "NoNewPrivs", "/proc/self/status"),
            allow_new_privileges=allowed,
            open_mode="truncate",
        )
        workload.run()
        assert here.log.read_text().split() == ["NoNewPrivs:", expected]


def test_no_descriptor_of_others_reaches_supervisor_or_program(here: Pool) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    workload = here.workload("ls /proc/self/fd; echo >$TOLD; exec sleep 1000")
    directory, spec = os.open(workload.folder, os.O_RDONLY), spec_file(encoded(workload.spec))
    for fd in (directory, spec):
        os.set_inheritable(fd, True)
    command = [str(program(SUPERVISOR)), str(spec), str(directory)]
    process = subprocess.Popen(command, close_fds=False)
    workload.supervisors.append(process)
    for fd in (directory, spec, writer):
        os.close(fd)
    here.told.line()
    assert os.read(reader, 1) == b""  # no process that still runs has the other end
    os.close(reader)
    assert here.log.read_text().split() == ["0", "1", "2", "3"]  # 3: what `ls` itself reads


def test_the_oom_killer_takes_the_program_before_the_supervisor(here: Pool) -> None:
    before = Path("/proc/self/oom_score_adj").read_text().strip()
    lines = Path("/proc/self/status").read_text().splitlines()
    capabilities = next(int(line.split()[1], 16) for line in lines if line[:6] == "CapEff")
    may_lower = capabilities >> CAP_SYS_RESOURCE & 1
    workload = here.workload("cat /proc/self/oom_score_adj; cat /proc/$PPID/oom_score_adj")
    workload.run()
    assert here.log.read_text().split() == [before, "-900" if may_lower else before]


def test_output_is_appended_unless_it_is_to_be_truncated(here: Pool) -> None:
    here.workload("echo one").run()
    here.workload("echo two").run()
    assert here.log.read_text() == "one\ntwo\n"
    here.workload("echo three; echo four >&2", open_mode="truncate").run()
    assert here.log.read_text() == "three\nfour\n"
    apart = here.folder / "out" / "errors"
    here.workload("echo five >&2", stderr=str(apart)).run()
    assert apart.read_text() == "five\n"
    made = apart.stat()
    assert (made.st_uid, stat.S_IMODE(made.st_mode)) == (OTHER_UID, 0o644)


@pytest.mark.parametrize(
    ("changes", "number", "text"),
    [
        ({"arguments": ["no-such-program"]}, errno.ENOENT, "no-such-program: No such file"),
        ({"arguments": ["/etc/passwd"]}, errno.EACCES, "/etc/passwd: Permission denied"),
        ({"cwd": "/no/such/folder"}, errno.ENOENT, "working directory /no/such/folder: No such"),
        ({"stdin": "/no/such/input"}, errno.ENOENT, "/no/such/input: No such file"),
        ({"stdout": "/proc/no/such/log"}, errno.ENOENT, "/proc/no/such/log: No such file"),
        ({"stderr": "/proc/no/such/log"}, errno.ENOENT, "/proc/no/such/log: No such file"),
        ({"stdout": "/tmp"}, errno.EISDIR, "/tmp: Is a directory"),
        ({"resource_limits": {"NOFILE": (9, 8)}}, errno.EINVAL, "rlimit.NOFILE=9:8: Invalid"),
        ({"resource_limits": {"BANANA": (1, 1)}}, errno.EINVAL, "rlimit.BANANA=1:1: Invalid"),
    ],
    ids=str,
)
def test_a_start_that_fails_is_written_down_and_leaves_no_log(
    here: Pool, changes: dict[str, object], number: int, text: str
) -> None:
    outcome = failure(here, **changes)
    assert outcome.errno == number
    assert outcome.text.startswith(text)
    assert not here.log.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"#! /no/such/python -u\n", "its interpreter /no/such/python: No such file"),
        (b"#!/bin/sh\r\n", "its interpreter /bin/sh\\r (its lines end as those of Windows): No"),
    ],
)
def test_an_interpreter_that_is_not_there_is_named(here: Pool, content: bytes, said: str) -> None:
    script = here.folder / "out" / "script"
    script.write_bytes(content)
    script.chmod(0o755)
    outcome = failure(here, arguments=[str(script)])
    assert (outcome.errno, outcome.text.startswith(f"{script}: {said}")) == (errno.ENOENT, True)


def test_a_loader_that_is_not_there_is_named(here: Pool) -> None:
    program = here.folder / "out" / "program"
    content = Path("/bin/true").read_bytes()
    program.write_bytes(content.replace(b"/ld-linux", b"/no-linux"))
    program.chmod(0o755)
    assert failure(here, arguments=[str(program)]).text.startswith(f"{program}: its loader: No")


def test_a_log_that_was_there_is_left_as_it_is(here: Pool) -> None:
    here.workload("echo first").run()
    failure(here, arguments=["/no/such/program"])
    failure(here, stderr="/no/such/log", open_mode="truncate")
    assert here.log.read_text() == "first\n"


def test_neither_links_nor_pipes_are_taken_for_logs(here: Pool) -> None:
    target, link, pipe = (here.folder / "out" / name for name in ("target", "link", "pipe"))
    link.symlink_to(target)
    os.mkfifo(pipe)
    os.chmod(pipe, 0o666)
    assert failure(here, stdout=str(link)).errno == errno.ELOOP
    refused = failure(here, stdout=str(pipe))
    assert refused.text == f"{pipe}: It is a pipe or a socket, not a file"
    fd = os.open(pipe, os.O_RDWR)
    try:
        assert failure(here, stderr=str(pipe)).errno == errno.ESPIPE
    finally:
        os.close(fd)
    assert not target.exists()


def test_the_users_rights_count_for_every_path(here: Pool) -> None:
    if not IS_ROOT:
        pytest.skip("there is no other user")
    private = here.folder / "private"
    private.mkdir(mode=0o700)
    assert failure(here, cwd=str(private)).errno == errno.EACCES
    assert failure(here, stdout=str(private / "log")).errno == errno.EACCES
    assert failure(here, arguments=[str(private / "program")]).errno == errno.EACCES
    assert list(private.iterdir()) == []


def test_what_is_hostile_in_a_name_does_not_reach_the_record(here: Pool) -> None:
    name = "/no/\x1b[31m\nexited 0\n\x85" + "x" * 5000
    outcome = failure(here, cwd=name)
    assert outcome.text.startswith("working directory /no/?[31m?exited 0??xxx")
    assert len(outcome.text) < 500


@pytest.mark.parametrize(
    "records", [b"", b"attempt=1", b"attempt=1\0id=../x\0", b"attempt=1\0id=w\0uid=0\0gid=0\0"]
)
def test_a_spec_that_is_damaged_is_written_down(here: Pool, records: bytes) -> None:
    workload = here.workload()
    directory = os.open(workload.folder, os.O_RDONLY)
    with start_supervisor(records, directory) as process:
        assert process.wait(DEADLINE_S) == 0
    os.close(directory)
    ended = read_exit(workload.folder)
    assert ended is not None
    assert not isinstance(ended, Damaged)
    assert isinstance(ended.outcome, FailedToStart)
