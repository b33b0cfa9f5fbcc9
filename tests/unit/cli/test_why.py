"""`moiety sim explain` and `what-if`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moiety.cli.main import main
from moiety.model import errors


def moiety(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["sim", *arguments])
    out, err = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err


def job(name: str, queue: str, gpus: int, **task: Any) -> dict[str, Any]:
    return {"name": name, "queue": queue, "gpus_per_task": gpus, "priority": 50, "tasks": [task]}


@pytest.fixture
def case(tmp_path: Path) -> Path:
    runs = {"state": "running", "node": "n", "running_for_s": 600}
    jobs = [
        job("old", "q", 1, **runs) | {"expected_run_s": 3600},
        job("young", "q", 1, **runs | {"running_for_s": 60}),
        job("theirs", "r", 2, **runs) | {"expected_run_s": 1800},
        job("new", "q", 2, state="pending") | {"created": 700},
    ]
    queues = [
        {"name": name, "parent": None, "created": 0, "priority": 100, "quota_gpus": 2}
        for name in "qr"
    ]
    node = {"name": "n", "gpus": 4, "gpu_memory_mib": 16000, "cpu_milli": 9, "memory_bytes": 2**34}
    path = tmp_path / "case.json"
    path.write_text(json.dumps({"name": "c", "nodes": [node], "queues": queues, "jobs": jobs}))
    return path


def test_it_says_why_a_job_waits_and_until_when(
    case: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = moiety(capsys, "explain", str(case), "new")
    assert code == 0
    assert out == (
        "new waits: the only node cannot take 2 GPUs now: it has too little of its GPUs left; "
        "queue q has 2 of a fair share of 2 GPUs, its quota is 2; it would have room if young/0, "
        "theirs/0 ended; it starts in 10 min to 40 min, most likely 20 min\n"
    )
    code, out, _ = moiety(capsys, "explain", str(case), "new", "-o", "json")
    found = json.loads(out)
    assert (found["status"], found["end"]) == ("waits", ["young/0", "theirs/0"])
    at = {"expected_s": 1200, "earliest_s": 600, "latest_s": 2400, "foreseen_s": 1200}
    assert found["start"] == at


def test_it_says_what_would_be(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = moiety(
        capsys, "what-if", str(case), "--queue", "q", "--gpus", "1", "--priority", "90"
    )
    assert out == "what-if begins now with 1 of 1 tasks on n; young/0 ends for it\n"
    _, out, _ = moiety(capsys, "what-if", str(case), "--queue", "q", "--memory", "20GiB")
    assert out.startswith(
        "what-if cannot run here: the only node can never take 20480 MiB of memory"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "FILE", "x"), "there is no job x\n  try: one of: old, young, theirs, new"),
        (("explain", "FILE", "new", "--case", "x"), "--case with one of: c"),
        (("what-if", "FILE", "--queue", "x"), "one of: q, r"),
        (("what-if", "FILE", "--queue", "q", "--gpus", "1", "--gpu", "0.5"), "or a part of one"),
        (("what-if", "FILE", "--queue", "q", "--gpu", "0.0001"), "less than a thousandth of a GPU"),
        (("what-if", "FILE", "--queue", "q", "--min-tasks", "3"), "at most 1"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: tuple[str, ...], words: str, case: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [str(case) if each == "FILE" else each for each in arguments]
    code, _, err = moiety(capsys, *filled)
    assert code
    assert words in err


def test_run_times_come_from_jobs_that_ran_where_nobody_declares_any(
    case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads(case.read_text())
    for each in whole["jobs"]:
        each.pop("expected_run_s", None)
        each["user"] = "ada"
    whole["jobs"][0]["name"], whole["jobs"][1]["name"] = "old-8", "young-8"
    case.write_text(json.dumps(whole))
    jobs = tmp_path / "jobs.csv"
    head = "name,gpus,submitted_s,duration_s,queue,user\n"
    lines = [f"theirs{at},2,{at},{9000 + at},r,ada\n" for at in range(20)]
    lines += [f"{name}-{at},1,{at},90000,q,ada\n" for name in ("old", "young") for at in range(20)]
    jobs.write_text(head + "".join(lines))
    _, out, _ = moiety(capsys, "explain", str(case), "new", "-o", "json")
    guess = json.loads(out)["start"]
    code, out, _ = moiety(capsys, "explain", str(case), "new", "-o", "json", "--history", str(jobs))
    assert code == 0
    start = json.loads(out)["start"]
    assert guess["expected_s"] < 2400
    assert 4000 < start["earliest_s"] < start["expected_s"] < start["latest_s"] < 20000
    whole["history"] = [
        {"name": f"old-{at}", "queue": "q", "user": "ada", "gpus": gpus, "ran_s": 9000 + at}
        for at in range(20)
        for gpus in (1, 2)
    ]
    case.write_text(json.dumps(whole))
    _, out, _ = moiety(capsys, "explain", str(case), "new", "-o", "json")
    assert json.loads(out)["start"]["expected_s"] == 600  # theirs: nothing like it has ended
    whole["history"] += [row | {"queue": "r"} for row in whole["history"]]
    case.write_text(json.dumps(whole))
    _, out, _ = moiety(capsys, "explain", str(case), "new", "-o", "json")
    assert 4000 < json.loads(out)["start"]["expected_s"] < 20000
    code, out, _ = moiety(
        capsys, "what-if", str(case), "--queue", "r", "--user", "ada", "--name", "theirs-99"
    )
    assert code == 0
    assert out.startswith("theirs-99 begins now")
    code, _, err = moiety(capsys, "explain", str(case), "new", "--history", "/dev/null")
    assert code == errors.TraceMissing.exit_code
    assert "there is no history of jobs in /dev/null: it is no file\n  try: the columns in" in err


LIMITS: dict[str, dict[str, Any]] = {
    "limit": {"limit_memory_bytes": 10e9},
    "quota": {"quota_memory_bytes": 10e9},
    "night": {
        "quota_memory_bytes": 10e9,
        "windows": [
            {"from": "20:00", "until": "08:00", "quota_gpus": 4, "quota_memory_bytes": 10e9}
        ],
    },
}


@pytest.mark.parametrize("bound", LIMITS)
@pytest.mark.parametrize(("asked", "begins"), [(10e9, True), (20e9, False)])
def test_memory_is_compared_with_quotas_and_limits_in_one_unit(
    bound: str, asked: float, begins: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = {"name": "q", "quota_gpus": 4, **LIMITS[bound]}
    node = {"name": "n", "gpus": 4, "memory_bytes": 64e9}
    new = job("new", "q", 1, state="pending") | {
        "memory_bytes_per_task": asked, "preemptible": False
    }  # fmt: skip
    path = tmp_path / "case.json"
    whole = {"name": "c", "nodes": [node], "queues": [queue], "jobs": [new], "now": "mon 21:00"}
    path.write_text(json.dumps(whole))
    _, out, _ = moiety(capsys, "explain", str(path), "new")
    assert out.startswith("new begins now" if begins else "new cannot run here: by it alone")
    if not begins:
        assert "queue q would have 19073 MiB of memory" in out
        one = ("--gpus", "1", "--memory", "20GB", "--guaranteed")
        _, out, _ = moiety(capsys, "what-if", str(path), "--queue", "q", *one)
        assert "queue q would have 19073 MiB of memory" in out


@pytest.mark.parametrize(
    ("state", "tasks", "words"),
    [
        ("pending", 2, "gang waits: it needs 3 tasks at once, and there are only 2\n"),
        ("running", 2, "gang ends: it needs 3 tasks at once, and there are only 2\n"),
        ("releasing", 1, "gang waits: it has no tasks to run\n"),
    ],
)
def test_a_gang_with_too_few_tasks_is_told_so(
    state: str, tasks: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gang = job("gang", "q", 1) | {"min_tasks": 3, "tasks": [{"state": state, "node": "n"}] * tasks}
    queues = [{"name": "q", "quota_gpus": 4}]
    path = tmp_path / "case.json"
    node = {"name": "n", "gpus": 4}
    path.write_text(json.dumps({"name": "c", "nodes": [node], "queues": queues, "jobs": [gang]}))
    code, out, _ = moiety(capsys, "explain", str(path), "gang")
    assert (code, out) == (0, words)
