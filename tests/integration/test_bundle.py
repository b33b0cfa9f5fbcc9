"""`moiety doctor --bundle` has what a bug report needs, and none of the secrets that lie about."""

from __future__ import annotations

import gzip
import io
import json
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.model import errors
from moiety.testing.node import Node, finish

MakeNode = Callable[[str], Node]
SMALL = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
PARTS = {
    "README.txt",
    "versions.json",
    "findings.txt",
    "findings.json",
    "status.json",
    "ps.json",
    "watch.json",
    "events.jsonl",
    "agent.log",
    "config.json",
    "environment.txt",
    "limits.txt",
    "gpus.json",
    "trace.json",
    "events.recording",
    "missing.txt",
}
IN_ENVIRONMENT = "s3cr3t-of-the-environment"
IN_ARGUMENT = "s3cr3t-of-a-command-line"
IN_HOME = "s3cr3t-name-of-a-home"
IN_LOG = "s3cr3t-in-a-log"
SECRETS = (IN_ENVIRONMENT, IN_ARGUMENT, IN_HOME, IN_LOG)


def unpacked(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        found = {}
        for member in archive:
            assert (member.uid, member.uname, member.mode & 0o111) == (0, "", 0)
            content = archive.extractfile(member)
            assert content is not None
            found[member.name.removeprefix("moiety-bundle/")] = content.read().decode()
        return found


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_is_in_it_and_all_that_is_needed(
    make_node: MakeNode, programs: Path, kernels: Path, tmp_path: Path, form: str
) -> None:
    node = make_node(SMALL)
    home = node.directory / IN_HOME
    (home / "moiety").mkdir(parents=True)
    (home / "moiety" / "config.toml").write_text(
        f'[agent]\nmetrics = "{home}/scrape.sock"\n[run]\npriority = "high"\n'
    )
    node.env |= {
        "HOME": str(home),
        "MOIETY_CONFIG": str(home / "moiety" / "config.toml"),
        "AWS_SECRET_ACCESS_KEY": IN_ENVIRONMENT,
        "HARMLESS": IN_ENVIRONMENT,
        "MOIETY_DEEPBIND": "keep",
    }
    node.start_agent("--log-format", form)
    worker = [programs / "worker", kernels, 20 << 20, 2, 0, 0, 1]
    script = f'exec "$@" # --api-key={IN_ARGUMENT}'
    assert finish(node.run(["/bin/sh", "-c", script, "sh", *worker], "--name", "train.py"))[0] == 0
    line = json.dumps({"ask": "create_workload", "argv": [f"--password {IN_LOG}"]})
    entry = {"time": "2026", "level": "error", "event": "request_failed", "line": line}
    pairs = " ".join(f"{key}={json.dumps(value)}" for key, value in entry.items())
    with (node.directory / "agent.log").open("a") as file:
        file.write((json.dumps(entry) if form == "json" else pairs) + "\n")
    report = tmp_path / "report.tar.gz"
    done = node.cli("doctor", "--bundle", str(report))
    assert done.returncode == 0, done.stderr
    assert f"written to {report}: look through it before you send it" in done.stderr
    found = unpacked(report)
    assert found.keys() == PARTS
    assert found["missing.txt"] == ""
    for secret in SECRETS:
        assert [name for name, text in found.items() if secret in text] == []
    assert json.loads(found["versions.json"])["simulated"] is True
    reasons = [json.loads(line)["reason"] for line in found["events.jsonl"].splitlines()]
    assert reasons == ["AgentStarted", "Joined", "Left"]
    assert "ready" in found["agent.log"]
    assert "request_failed" in found["agent.log"]
    assert json.loads(found["status.json"])["metrics"] == "~/scrape.sock"
    values = {row["name"]: row for row in json.loads(found["config.json"])}
    assert values["run.priority"]["value"] == "high"
    assert values["run.priority"]["where"] == "~/moiety/config.toml:4"
    assert "MOIETY_DEEPBIND=keep" in found["environment.txt"]
    assert "HARMLESS" not in found["environment.txt"]
    assert any(e.get("name") == "joined" for e in json.loads(found["trace.json"])["traceEvents"])
    assert json.loads(found["gpus.json"])[0]["device"]["name"].endswith("(simgpu)")
    assert "Max locked memory" in found["limits.txt"]
    assert json.loads(found["status.json"])["gpus"][0]["gpu"] == 0


def test_without_an_agent_it_has_the_rest_and_says_what_is_missing(
    make_node: MakeNode, tmp_path: Path
) -> None:
    node = make_node("A100-80")
    file = tmp_path / "report.tar.gz"
    done = node.cli("doctor", "--bundle", str(file))
    assert done.returncode == 0, done.stderr
    found = unpacked(file)
    assert "findings.txt" in found
    assert "status.json: no agent" in found["missing.txt"].replace("there is ", "")
    assert "not in it: status.json" in done.stderr
    again = node.cli("doctor", "--bundle", str(file))
    assert again.returncode == errors.FileExists.exit_code
    assert "--force" in again.stderr
    assert node.cli("doctor", "--bundle", str(file), "--force").returncode == 0


def test_an_agent_that_does_not_answer_is_asked_once(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node("A100-80")
    agent = node.start_agent()
    agent.send_signal(signal.SIGSTOP)
    file = tmp_path / "report.tar.gz"
    done = node.cli("doctor", "--bundle", str(file))
    assert done.returncode == 1
    assert done.stdout.count("nothing came in 5 s") == 1, done.stdout
    found = unpacked(file)
    assert "nothing came in 5 s; is it stopped?" in found["missing.txt"]
    reasons = [json.loads(line)["reason"] for line in found["events.jsonl"].splitlines()]
    assert reasons == ["AgentStarted"]
    assert "ready" in found["agent.log"]
    agent.send_signal(signal.SIGCONT)


def test_on_stdout_there_is_the_archive_and_nothing_else(make_node: MakeNode) -> None:
    node = make_node(SMALL)
    command = [sys.executable, "-m", "moiety", "doctor", "--bundle", "-"]
    done = subprocess.run(command, env=node.env, capture_output=True, check=True, timeout=120)
    with gzip.open(io.BytesIO(done.stdout)) as whole:  # which refuses what follows the archive
        assert b"findings.txt" in whole.read()
