from __future__ import annotations

import json
from pathlib import Path

import pytest

from moiety.model.errors import TraceInvalid
from moiety.policy.model.queues import Amounts, Queue
from moiety.sim.gangs import read_gangs
from moiety.sim.queue_file import within_queues
from tests.unit.cli.test_sim import moiety

JOBS = "name,gpus,submitted_s,duration_s,queue\n"
QUEUES = "name,parent,quota_gpus,limit_gpus\nall,,8,\na,all,2,2\nb,all,2,\n"
BAD = [
    ("large,4,0,60,a", "large wants 4 GPUs, and queue a never has more than 2"),
    ("lost,1,0,60,c", "lost is of queue c, which is not there"),
    ("above,1,0,60,all", "above is of queue all, which only has queues below it"),
    ("none,1,0,60,", "none is of queue (none), which is not there"),
]


@pytest.mark.parametrize(("line", "problem"), BAD)
def test_a_job_that_its_queue_never_lets_run_is_a_bad_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, problem: str
) -> None:
    (tmp_path / "jobs.csv").write_text(f"{JOBS}fits,2,0,60,a\n{line}\n")
    (tmp_path / "queues.csv").write_text(QUEUES)
    for subcommand in (["run"], ["capacity"]):
        arguments = (*subcommand, "--queues", f"{tmp_path}/queues.csv", "--cluster", "8")
        code, _, err = moiety(capsys, *arguments, f"{tmp_path}/jobs.csv")
        assert code == 65
        assert "jobs.csv, line 3" in err
        assert problem in err
        code, out, _ = moiety(
            capsys, *arguments, "--bad", "report", "-o", "json", f"{tmp_path}/jobs.csv"
        )
        assert code == 0
        assert json.loads(out)
    code, out, _ = moiety(capsys, "run", *arguments[1:], "--bad", "report", f"{tmp_path}/jobs.csv")
    assert "1 job," in out
    assert problem in out


def test_a_trace_needs_a_job_that_could_run(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(f"{JOBS}large,4,0,60,a\n")
    found = read_gangs(tmp_path / "jobs.csv", 8, lenient=True)
    queue = Queue("a", limit=Amounts(gpu_milli=2000))
    with pytest.raises(TraceInvalid, match="none of its jobs could ever run in these queues"):
        within_queues(found, [queue])
