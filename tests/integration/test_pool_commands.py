"""The commands of the pool, as people type them: what they say, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from moiety.pool.connection import UnixConnection
from moiety.pool.model.records import Problem
from moiety.pool.model.states import WorkState
from moiety.testing.node import Lines
from moiety.testing.waiting import until
from tests.support.pool_node import MakePool, PoolNode

TWO = "2xA100-80:memory=96MiB"


@pytest.fixture
def pool(make_pool: MakePool) -> PoolNode:
    return make_pool(TWO)


def moiety(pool: PoolNode, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in a folder, as a shell starts it."""
    return subprocess.run(
        [sys.executable, "-m", "moiety", *words],
        cwd=folder,
        env=pool.node.env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_typed_is_what_runs(pool: PoolNode, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    pool.node.env["GREETING"] = "héllo"
    done = moiety(
        pool, "submit", "--name", "sweep", "--gpu", "0.5", "--time", "1h", "--",
        "sh", "-c", 'pwd; echo "$GREETING $1 $MOIETY_JOB_NAME"; echo wrong >&2', "sh", "two  words",
        folder=folder,
    )  # fmt: skip
    assert done.stdout == "submitted workload 1\n", done.stderr
    waited = pool.node.cli("wait", "sweep")
    assert (waited.returncode, waited.stdout) == (0, "workload 1 is done\n")
    assert pool.node.cli("logs", "1").stdout == f"{folder}\nhéllo two  words sweep\nwrong\n"
    assert (folder / "moiety-1.log").exists()
    apart = moiety(
        pool, "submit", "-q", "--error-log", "%x-%j.err", "--name", "n", "--", "sh", "-c",
        "echo out; echo err >&2", folder=folder,
    )  # fmt: skip
    number = apart.stdout.strip()
    pool.ended(int(number))
    assert pool.node.cli("logs", number, "--error-log").stdout == "err\n"
    assert (folder / f"n-{number}.err").read_text() == "err\n"


def test_a_file_has_options_and_the_command(pool: PoolNode, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(
        "name: fromfile\ngpus: 1\ngpu: 50%\nmemory: 8MiB\nhold: true\npriority: 5\n"
        "command: [sh, -c, echo from a file]\n"
    )
    done = moiety(pool, "submit", "-f", str(file), "--priority", "7", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    row = pool.row(1)
    assert (row.name, row.gpu_milli, row.gpu_memory_mib, row.priority, row.state) == (
        "fromfile", 500, 8, 7, WorkState.HELD,
    )  # fmt: skip
    for text, said in (
        ("gpuz: 1\ncommand: [true]\n", "'gpuz' is no option of `moiety submit`"),
        ("command: true\n", "`command` is no list of words"),
        ("[1, 2]\n", "no mapping"),
        ("a: [\n", "it is no YAML"),
    ):
        file.write_text(text)
        refused = moiety(pool, "submit", "-f", str(file), folder=tmp_path)
        assert (refused.returncode, said in refused.stderr) == (65, True), refused.stderr
    missing = moiety(pool, "submit", "-f", "none.yaml", folder=tmp_path)
    assert missing.returncode == 65
    assert "none.yaml: it cannot be read: No such file or directory\n" in missing.stderr


def test_values_in_a_file_mean_what_they_mean_on_the_command_line(
    pool: PoolNode, tmp_path: Path
) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(
        "begin: 16:30\nname: 007\nhold: yes\nrequeue: true\nkill-invalid: false\n"
        "command: [echo, yes, 1.10, 007, 12:30, ~]\n"
    )
    done = moiety(pool, "submit", "-f", str(file), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    row = pool.row(1)
    assert time.strftime("%H:%M", time.localtime(row.begin_after_s)) == "16:30"
    assert (row.name, row.requeue, row.state) == ("007", True, WorkState.HELD)
    assert row.command == "echo yes 1.10 007 12:30 ~"
    file.write_text("name: [a, b]\ncommand: [true]\n")
    refused = moiety(pool, "submit", "-f", str(file), folder=tmp_path)
    assert "'name' has several values, and takes one" in refused.stderr


def test_logs_follow_a_program_to_its_end(pool: PoolNode) -> None:
    script, opens = pool.gate("open")
    number = pool.submit(f"{script}; echo last")
    follower = pool.node.start([sys.executable, "-m", "moiety", "logs", "-f", str(number)])
    assert Lines(follower.stdout).next() == "runs\n"
    opens.touch()
    out, err = follower.communicate(timeout=60)
    assert (follower.returncode, out) == (0, "last\n"), err


def test_logs_print_files_only_and_what_became_shorter_from_its_begin(
    pool: PoolNode, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    script, opens = pool.gate("open")
    number = pool.submit(f"{script}; echo new > {log}", stdout=str(log), gpus=0)
    follower = pool.node.start([sys.executable, "-m", "moiety", "logs", "-f", str(number)])
    assert Lines(follower.stdout).next() == "runs\n"
    opens.touch()
    out, err = follower.communicate(timeout=60)
    assert (follower.returncode, out) == (0, "new\n"), err
    log.unlink()
    for put in (os.mkfifo, os.mkdir):
        put(log)
        refused = pool.node.cli("logs", str(number))
        assert (refused.returncode, f"{log}: it is no file" in refused.stderr) == (65, True)
        (log.rmdir if log.is_dir() else log.unlink)()


def test_the_queue_says_what_each_one_waits_for(pool: PoolNode) -> None:
    script, opens = pool.gate("open")
    first = pool.submit(script, gpus=2, name="big")
    pool.until_state(first, "running")
    pool.submit(script, name="small", memory_bytes=8 << 20)
    pool.submit("true", name="later", hold=True)
    text = pool.node.cli("queue").stdout
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["ID", "NAME", "PROJECT", "USER", "STATE", "TIME", "GPUS", "ON", "REASON"]
    assert lines[1][:2] == ["1", "big"]
    assert "0,1" in lines[1]
    assert "project default has 2 of a fair share of 2 GPUs" in text
    assert "held by its user" in text
    rows = json.loads(pool.node.cli("queue", "--state", "held", "-o", "json").stdout)
    assert [row["name"] for row in rows] == ["later"]
    assert len(json.loads(pool.node.cli("queue", "--limit", "1", "-o", "json").stdout)) == 1
    projects = json.loads(pool.node.cli("queue", "--projects", "-o", "json").stdout)
    assert [(each["project"]["name"], each["running"], each["waiting"]) for each in projects] == [
        ("default", 1, 2)
    ]
    assert "default" in pool.node.cli("queue", "--projects").stdout
    done = pool.node.cli("cancel", "--project", "default")
    assert "workload 3 is cancelled" in done.stdout, done.stderr
    opens.touch()
    assert pool.ended(2).state is WorkState.CANCELLED


REFUSED = (
    (("submit", "--project", "nlp", "--", "true"), 66, "no project nlp"),
    (("submit", "--gpus", "9", "--gpu", "2", "--", "true"), 64, "--gpu"),
    (("submit", "--gpus", "0", "--memory", "1GiB", "--", "true"), 64, "on no GPU"),
    (("submit", "--name", "a b", "--", "true"), 64, "is no name"),
    (("submit",), 64, "no program is named"),
    (("submit", "--", "/no/such/program"), 127, "/no/such/program"),
    (("submit", "--memory", "banana", "--", "true"), 64, "banana"),
    (("cancel",), 64, "not said what to cancel"),
    (("cancel", "17"), 66, "no workload 17"),
    (("hold", "nothing"), 66, "no workload nothing"),
    (("explain", "../../status"), 66, "no workload"),
    (("logs", "99999999999999999999"), 66, "no workload"),
    (("apply", "-f", "/no/such/file"), 65, "cannot be read"),
    (("diff", "-f", "/no/such/file"), 65, "cannot be read"),
)


def test_the_status_tells_of_the_pool_while_its_agent_is_away(pool: PoolNode) -> None:
    pool.submit("true", hold=True)
    assert pool.node.cli("stop").returncode == 0
    said = pool.node.cli("status").stdout.splitlines()
    assert said[0] == "no agent is running, so no GPU is shared"
    assert said[1].startswith("pool: 0 running, 1 waiting; workloads have ")
    assert said[1].endswith("; it starts an agent when work begins")
    pool.node.cli("down")
    assert pool.node.cli("status").stdout.splitlines() == said[:1]


def test_projects_and_users_that_are_not_there_are_named(pool: PoolNode) -> None:
    for command in ("queue", "history", "cancel"):
        done = pool.node.cli(command, "--project", "vison")
        assert (done.returncode, done.stdout) == (66, ""), done.stderr
        assert "the pool has no project vison" in done.stderr
        assert pool.node.cli(command, "--project", "default").returncode == 0, "it has no work"
    for command in ("queue", "history"):
        done = pool.node.cli(command, "--user", "no-such-user")
        assert (done.returncode, "no user is called" in done.stderr) == (66, True)
        assert pool.node.cli(command, "--user", "root").returncode == 0
    nothing = pool.node.cli("cancel", "--project", "default").stderr
    assert nothing == "project default has no work to cancel\n"


def test_what_makes_no_sense_is_refused_with_its_reason(pool: PoolNode) -> None:
    for words, code, text in REFUSED:
        refused = pool.node.cli(*words)
        assert (refused.returncode, text in refused.stderr) == (code, True), refused.stderr
        assert "Traceback" not in refused.stderr
    assert pool.live() == []


def test_work_that_can_never_run_says_so(pool: PoolNode) -> None:
    number = pool.submit("true", gpus=3)
    until(lambda: pool.status().gpus == 2, "the machine is looked at")
    done = pool.node.cli("explain", str(number))
    assert "it can never start as it is" in done.stdout, done.stdout
    found = json.loads(pool.node.cli("explain", str(number), "-o", "json").stdout)
    assert found["is_final"] is True
    late = pool.node.cli("wait", str(number), "--timeout", "10ms")
    assert (late.returncode, "still runs" in late.stderr) == (75, True), late.stderr


def test_projects_that_make_no_sense_are_refused(pool: PoolNode, tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    for text, code, said in (
        ("projects: [{name: a, quotas: 3}]\n", 65, "quotas"),
        ("projects: [{name: a, parent: b}]\n", 64, "no project b above it"),
        ("projects: [{quota: 3}]\n", 65, "name"),
        ("projects: [{name: a, quota: .nan}]\n", 65, "is not finite"),
        ("- a\n", 65, "Expected"),
    ):
        file.write_text(text)
        refused = pool.node.cli("apply", "-f", str(file))
        assert (refused.returncode, said in refused.stderr) == (code, True), refused.stderr
    assert [each.project.name for each in pool.status().projects] == ["default"]


def test_requests_that_are_none_are_refused(pool: PoolNode) -> None:
    for method, path, body, status in (
        ("POST", "/v1/workloads", b"{", 400),
        ("POST", "/v1/workloads", b'{"program":"/bin/true","argv":["x"],"cwd":"/","uid":0}', 400),
        ("POST", "/v1/workloads", b"\xff\xfe", 400),
        ("POST", "/v1/workloads", b" " * (5 << 20), 400),
        ("GET", "/v1/workloads?limit=-1", b"", 400),
        ("GET", "/v1/workloads?state=lost", b"", 400),
        ("GET", "/v1/nothing", b"", 404),
        ("DELETE", "/v1/workloads", b"", 405),
    ):
        connection = UnixConnection(pool.paths)
        connection.request(method, path, body)
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == status, (method, path, said)
        problem = msgspec.json.decode(said, type=Problem)
        assert problem.what, "every error has its parts"
        assert problem.exit_code == 64, path
        connection.close()
    assert pool.live() == []


def test_a_pool_is_for_its_owner_alone(pool: PoolNode) -> None:
    assert pool.paths.socket.stat().st_mode & 0o777 == 0o600
    assert pool.paths.folder.stat().st_mode & 0o077 == 0
