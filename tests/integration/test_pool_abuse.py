"""What users of a machine's pool may try: nothing of it reaches others, or outlives a workload."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from moiety.pool.model.states import WorkState
from moiety.testing.waiting import until
from tests.support.machine_pool import MachinePool, machine_pool
from tests.support.users import ALICE, BOB, OtherUser
from tests.support.workloads import PYTHON, is_running

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]
SUBMIT = """
from moiety.pool.client import PoolClient
from moiety.pool.model.records import Accepted, Submission
pool = PoolClient()
try:
    told = pool.post("/workloads", Accepted, Submission(**{values!r})).id
except errors.MoietyError as error:
    told = f"{{type(error).__name__}}: {{error}}"
pool.close()
"""


@pytest.fixture(scope="module")
def pool(native: Path) -> Iterator[MachinePool]:
    with machine_pool(native, "waiting = 60\nprocesses = 4000") as made:
        yield made


@pytest.fixture
def users(pool: MachinePool) -> Iterator[tuple[OtherUser, OtherUser]]:
    with ExitStack() as stack:
        alice, bob = (stack.enter_context(pool.setting.user(uid)) for uid in (ALICE, BOB))
        for user in (alice, bob):
            folder = home(pool, user)
            if not folder.exists():
                folder.mkdir(mode=0o700)
                os.chown(folder, user.uid, user.uid)
        yield alice, bob


def home(pool: MachinePool, user: OtherUser) -> Path:
    """A folder of the user's own."""
    return pool.setting.folder / f"home{user.uid}"


def submit(pool: MachinePool, user: OtherUser, script: str, **values: Any) -> int | str:
    """Submit a script without a GPU by a request of one's own making; its number, or an error."""
    asked = {
        "program": "/bin/sh",
        "argv": ["sh", "-c", script],
        "cwd": str(home(pool, user)),
        "environment": {"PATH": "/usr/bin:/bin"},
        "gpus": 0,
    }
    user.do(SUBMIT.format(values=asked | values))
    told = user.do("told")
    assert isinstance(told, int | str)
    return told


def ended(pool: MachinePool, number: int | str) -> tuple[WorkState, str]:
    """How it ended, or is held after three starts that failed."""
    assert isinstance(number, int), number
    row = until(
        lambda: row if (row := pool.row(number)).ended_s or row.failures else None, "it is over"
    )
    return row.state, row.reason


def test_a_thousand_children_that_ignore_sigterm_end_with_the_workload(
    pool: MachinePool, users: tuple[OtherUser, OtherUser]
) -> None:
    alice, bob = users
    count = home(pool, alice) / "pids"
    script = (
        "trap '' TERM; i=0; while [ $i -lt 1000 ]; do (trap '' TERM; sleep 1000) & "
        f"echo $! >>{count}; i=$((i + 1)); done; (setsid sleep 1001 &); echo all >>{count}; wait"
    )
    number = submit(pool, alice, script, grace_s=0.1)
    assert isinstance(number, int)
    until(lambda: count.exists() and count.read_text().endswith("all\n"), "they run")
    other = submit(pool, bob, "exit 0")
    assert ended(pool, other)[0] is WorkState.DONE, "the pool serves others meanwhile"
    pids = [int(line) for line in count.read_text().split()[:-1]]
    assert sum(map(is_running, pids)) == 1000
    assert pool.setting.moiety(alice, "cancel", str(number))[0] == 0
    assert ended(pool, number)[0] is WorkState.CANCELLED
    assert not any(map(is_running, pids)), "the state is written when the last one has ended"


def test_logs_go_where_the_user_may_write_and_through_no_link(
    pool: MachinePool, users: tuple[OtherUser, OtherUser]
) -> None:
    alice, bob = users
    secret = home(pool, bob) / "secret"
    secret.write_text("bob's\n")
    os.chown(secret, BOB, BOB)
    link, pipe = home(pool, alice) / "link", home(pool, alice) / "pipe"
    alice.do(f"os.symlink({str(secret)!r}, {str(link)!r}); os.mkfifo({str(pipe)!r})")
    root_file = pool.setting.folder / "of-root"
    root_file.write_text("root's\n")
    for path, why in (
        (link, "Too many levels of symbolic links"),
        (secret, "Permission denied"),
        (root_file, "Permission denied"),
        (pipe, "It is a pipe"),
        (home(pool, bob) / "new", "Permission denied"),
        (pool.paths.folder / "pool.db", "Permission denied"),
    ):
        number = submit(pool, alice, "echo mine", stdout=str(path))
        state, reason = ended(pool, number)
        assert why in reason, (path, state, reason)
        assert pool.as_root("cancel", str(number))
    assert secret.read_text() == "bob's\n"
    assert root_file.read_text() == "root's\n"


def test_a_folder_that_is_replaced_before_the_start_is_opened_as_the_user(
    pool: MachinePool, users: tuple[OtherUser, OtherUser]
) -> None:
    alice, bob = users
    folder, before = home(pool, alice) / "job", set(home(pool, bob).iterdir())
    alice.do(f"os.mkdir({str(folder)!r})")
    number = submit(pool, alice, "pwd", cwd=str(folder), hold=True)
    alice.do(f"os.rmdir({str(folder)!r}); os.symlink({str(home(pool, bob))!r}, {str(folder)!r})")
    assert pool.setting.moiety(alice, "release", str(number))[0] == 0
    _, reason = ended(pool, number)
    assert f"working directory {folder}: Permission denied" in reason
    assert pool.as_root("cancel", str(number))
    assert set(home(pool, bob).iterdir()) == before


HOSTILE = "\x1b[31m\x1b]0;owned\x07 a\nb\rc\x9b2J\u202e"


def test_hostile_words_reach_no_terminal(
    pool: MachinePool, users: tuple[OtherUser, OtherUser]
) -> None:
    alice, _ = users
    assert "BadArgument" in str(submit(pool, alice, "true", name=HOSTILE))
    assert "BadArgument" in str(submit(pool, alice, "true", project=HOSTILE))
    numbers = [
        submit(pool, alice, "true", argv=["sh", "-c", "exit 3", HOSTILE]),
        submit(pool, alice, "true", cwd=f"/{HOSTILE}"),
        submit(pool, alice, "true", stdout=f"/{HOSTILE}/log", environment={"A": HOSTILE}),
        submit(pool, alice, "true", program=f"/{HOSTILE}", labels={"x": HOSTILE}),
        submit(pool, alice, HOSTILE, hold=True, gpu_model=HOSTILE, gpus=1),
    ]
    for number in numbers[:-1]:
        ended(pool, number)
    commands = [["queue"], ["history"], ["status"], ["queue", "--projects"]]
    commands += [[act, str(number)] for number in numbers for act in ("explain", "logs")]
    for words in commands:
        done = pool.run(*words)
        told = done.stdout + done.stderr
        assert told.isprintable() or all(c == "\n" or c.isprintable() for c in told), words
    for number in numbers:
        pool.run("cancel", str(number))


def test_a_megabyte_of_anything_is_refused_or_kept_short(
    pool: MachinePool, users: tuple[OtherUser, OtherUser]
) -> None:
    alice, bob = users
    big = "x" * (1 << 20)
    for values in (
        {"name": big},
        {"project": big},
        {"environment": {"A": big, "B": big}},
        {"labels": {str(at): big for at in range(4)}},
    ):
        told = submit(pool, alice, "true", **values)
        assert isinstance(told, str), f"{told} was accepted"
        assert len(told) < 1000
    big = big[: 1 << 19]
    number = submit(pool, alice, "exit 0", argv=["sh", "-c", "exit 0", big], stdout=f"/{big}")
    code, said, _ = pool.setting.moiety(bob, "queue", "-o", "json")
    assert (code, len(said) < 20_000) == (0, True)
    ended(pool, number)
    pool.run("cancel", str(number))


def test_a_user_who_submits_much_reaches_a_limit_and_keeps_no_other_out(
    pool: MachinePool, users: tuple[OtherUser, OtherUser]
) -> None:
    alice, bob = users
    gate = home(pool, alice) / "gate"
    wait = f"until [ -e {gate} ]; do sleep 0.05; done"
    first = submit(pool, alice, wait, gpus=1)
    assert isinstance(first, int)
    pool.until_state(first, "running")
    many = submit(pool, alice, "exit 0", gpus=1, array="0-58")
    last = submit(pool, alice, "exit 0", gpus=1)
    assert isinstance(last, int)
    told = submit(pool, alice, "exit 0", gpus=1)
    assert "TooMuchWaiting: 60 workloads of yours wait" in str(told)
    one = submit(pool, bob, "exit 0", gpus=1)
    assert isinstance(one, int)
    alice.do(f"open({str(gate)!r}, 'w').close()")
    assert ended(pool, one)[0] is WorkState.DONE
    assert isinstance(many, int)
    began = [pool.ended(number).began_s or 0.0 for number in (many + 58, last)]
    assert min(began) > (pool.ended(one).began_s or 0.0), "another user's comes before them"


def test_nobody_acts_for_another_user(
    pool: MachinePool, users: tuple[OtherUser, OtherUser]
) -> None:
    alice, bob = users
    for forged in ({"uid": BOB}, {"user": "bob"}, {"gid": 0}, {"groups": [0]}):
        alice.do(
            "from moiety.pool.client import PoolClient\n"
            "from moiety.pool.model.records import Accepted\n"
            "pool = PoolClient()\n"
            "try:\n"
            "    told = str(pool.post('/workloads', Accepted, {'program': '/bin/true', 'argv': "
            f"['true'], 'cwd': '/', **{forged!r}}}))\n"
            "except errors.MoietyError as error:\n"
            "    told = str(error)\n"
            "pool.close()"
        )
        assert "makes no sense" in alice.do("told")
    number = submit(pool, bob, "id -u; id -G; cat /proc/self/status", umask=0o077)
    assert ended(pool, number)[0] is WorkState.DONE
    log = home(pool, bob) / f"moiety-{number}.log"
    uid, groups, *status = log.read_text().splitlines()
    assert (uid, groups) == (str(BOB), str(BOB))
    assert "NoNewPrivs:\t1" in status
    assert next(line for line in status if line.startswith("CapEff")).endswith("0" * 16)
    assert (log.stat().st_uid, log.stat().st_mode & 0o777) == (BOB, 0o600)


def test_what_was_submitted_is_in_the_audit(
    pool: MachinePool, users: tuple[OtherUser, OtherUser]
) -> None:
    import sqlite3

    _, bob = users
    number = submit(pool, bob, "exit 0")
    connection = sqlite3.connect(f"file:{pool.paths.database}?mode=ro", uri=True)
    found = connection.execute(
        "SELECT uid FROM audit WHERE act = 'submit' AND target = ?", (str(number),)
    ).fetchall()
    connection.close()
    assert found == [(BOB,)]
    assert json.loads(pool.as_root("status", "-o", "json"))


def test_host_memory_is_a_limit_where_there_is_a_cgroup(
    pool: MachinePool, users: tuple[OtherUser, OtherUser]
) -> None:
    alice, _ = users
    has = pool.paths.cgroups.read_text()
    assert has in pool.as_root("status"), "it is said"
    if "memory" not in has.partition("limits of")[2]:
        pytest.skip(f"workloads have {has}")
    script = f"exec {PYTHON} -c 'len(bytearray(200 << 20))'"
    ended_well = submit(pool, alice, script)
    number = submit(pool, alice, script, host_memory_bytes=48 << 20)
    assert ended(pool, ended_well)[0] is WorkState.DONE
    state, reason = ended(pool, number)
    assert (state, "SIGKILL" in reason) == (WorkState.FAILED, True), reason


HOG = """
made = []
try:
    while len(made) < 40000:
        each = socket.socket(socket.AF_UNIX)
        made.append(each)
        each.settimeout(10)
        each.connect({path!r})
        each.send(b"this is not HTTP")
        if len(made) > 100:
            each = socket.socket(socket.AF_UNIX)
            each.connect({path!r})
            made.append(each)
except OSError as error:
    kind = error.errno
"""


def test_connections_of_one_user_neither_fill_the_log_nor_keep_others_out(
    pool: MachinePool, users: tuple[OtherUser, OtherUser]
) -> None:
    alice, bob = users
    before = len(pool.log())
    alice.do("import resource, socket")
    alice.do("hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]")
    alice.do("resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))")
    alice.do(HOG.format(path=str(pool.paths.socket)))
    assert alice.do("len(made)") > 1000
    code, _, err = pool.setting.moiety(bob, "queue")
    assert code == 0, err
    assert len(pool.log()) == before
    alice.do("made.clear()")
