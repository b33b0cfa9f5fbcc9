"""`moiety sim run` and `compare` on histories of clusters, and what became of each job."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.unit.cli.test_sim import moiety
from tests.unit.sim.histories import folder
from tests.unit.sim.test_sacct import HEADER, line, sacct

JOBS = "name,gpus,submitted_s,duration_s,queue,user\na,8,0,900,q,ada\nb,8,10,900,r,bob\n"
QUEUES = "name,quota_gpus\nq,8\nr,8\n"
NODES = "name,cpu_milli,memory_mib,gpus\nn,1,1,8\n"


def test_a_folder_with_queues_is_replayed_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = str(folder(tmp_path, JOBS, NODES, queues=QUEUES))
    code, out, _ = moiety(capsys, "run", here)
    assert code == 0
    assert "2 jobs, 1 node, 8 GPUs" in out
    assert "quotas were not kept at 2 moments; fairness (Jain): " in out  # 16 GPUs, of 8
    code, out, _ = moiety(capsys, "compare", here, "-o", "json")
    assert [each["order"] for each in json.loads(out)] == [
        "default",
        "fifo",
        "backfill",
        "fifo-queues",
        "drf",
    ]


def test_an_order_makes_a_plain_folder_a_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = str(folder(tmp_path, JOBS, NODES))
    assert "2 of 2 tasks placed" in moiety(capsys, "run", here, "--live")[1]
    assert "fifo" in moiety(capsys, "run", here, "--order", "fifo")[1]


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl"])
def test_what_became_of_each_job_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    here = str(folder(tmp_path, JOBS, NODES))
    target = tmp_path / name
    orders = ("--order", "fifo", "--order", "default")
    assert moiety(capsys, "compare", here, *orders, "--jobs", str(target))[0] == 0
    text = target.read_text()
    if name == "out.csv":
        rows = list(csv.DictReader(text.splitlines()))
        assert (rows[1]["ended_s"], rows[1]["wait_s"], rows[1]["nodes"]) == ("1800.0", "890.0", "n")
    else:
        rows = [json.loads(each) for each in text.splitlines()]
        assert (rows[1]["ended_s"], rows[1]["wait_s"], rows[1]["nodes"]) == (1800, 890, ["n"])
    assert [(row["name"], row["order"]) for row in rows] == [
        ("a", "fifo"),
        ("b", "fifo"),
        ("a", "default"),
        ("b", "default"),
    ]
    assert rows[1]["queue"] == "r"
    assert rows[1]["user"] == "bob"


def test_a_file_of_jobs_too_and_with_the_orders_that_know_queues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "queues.csv").write_text(QUEUES)
    file, target = tmp_path / "jobs.csv", tmp_path / "out.jsonl"
    file.write_text(JOBS)
    words = ("--cluster", "8", "--queues", str(tmp_path / "queues.csv"), "--jobs", str(target))
    for order in ("default", "drf", "fifo-queues"):
        code, out, err = moiety(capsys, "run", str(file), "--order", order, *words)
        assert code == 0, err
        assert order in out
        [first, second] = [json.loads(each) for each in target.read_text().splitlines()]
        assert (first["started_s"], second["ended_s"]) == (0, 1800)
        assert len(first["nodes"]) == 1


def test_output_of_sacct_and_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = sacct(tmp_path, line("1"), line("2", State="RUNNING"), line("3"))
    code, out, _ = moiety(capsys, "run", str(file), "--cluster", "8")
    assert code == 0
    assert "Left out: 1 jobs that had not ended." in out
    assert "CPUs and host memory were not looked at: no nodes.csv tells them." in out
    assert HEADER.startswith("JobID|")


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["--placing", "fgd"], "--placing is not for a history with queues", 64),
        (["--cluster", "8"], "--cluster is for a single file", 64),
        (["--order", "srtf"], "the order srtf is only for files of jobs with whole GPUs", 64),
        (["--jobs", "out.txt"], "out.txt is neither a .csv nor a .jsonl", 64),
        (["--jobs", "/nowhere/out.csv"], "/nowhere/out.csv", 73),
    ],
)
def test_what_is_not_for_a_history(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
    code: int,
) -> None:
    here = str(folder(tmp_path, JOBS, NODES, queues=QUEUES))
    found, _, err = moiety(capsys, "run", here, *words)
    assert said in err
    assert found == code


def test_jobs_that_never_end_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = str(folder(tmp_path, JOBS, NODES, changes="at_s,what,node\n900,remove,n\n"))
    code, out, _ = moiety(capsys, "run", here, "--order", "fifo")
    assert code == 0
    assert "fifo: 1 job never ended: b" in out


def test_jobs_are_about_orders(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = moiety(capsys, "run", "--jobs", "out.csv")
    assert (code, "--jobs is about orders, and this trace about placing" in err) == (64, True)
