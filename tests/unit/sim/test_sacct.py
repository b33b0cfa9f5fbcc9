"""A lab's own history, as Slurm's accounting prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.model.errors import TraceInvalid
from moiety.policy.model.workloads import Shape
from moiety.sim.history_file import is_history, read_history, read_sacct
from moiety.sim.reading import Complaints
from moiety.sim.sacct import read
from tests.unit.sim.histories import jobs_of

HEADER = (
    "JobID|User|Account|Partition|Submit|Eligible|Start|End|ElapsedRaw|State|ReqCPUS|ReqMem|"
    "ReqTRES|AllocTRES|Timelimit|Priority"
)
TRES = "billing=16,cpu=16,gres/gpu=4,mem=128G,node=1"
TWO = "cpu=32,gres/gpu:a100=8,gres/gpu=8,mem=256G,node=2"


def line(job: str = "1", **other: str) -> str:
    row = {
        "JobID": job,
        "User": "ada",
        "Account": "vision",
        "Partition": "gpu",
        "Submit": "2024-05-31T08:00:00",
        "Eligible": "2024-05-31T08:00:00",
        "Start": "2024-05-31T08:10:00",
        "End": "2024-05-31T09:10:00",
        "ElapsedRaw": "3600",
        "State": "COMPLETED",
        "ReqCPUS": "16",
        "ReqMem": "128G",
        "ReqTRES": TRES,
        "AllocTRES": TRES,
        "Timelimit": "1-00:00:00",
        "Priority": "4711",
    }
    return "|".join((row | other).values())


def sacct(path: Path, *lines: str, header: str = HEADER) -> Path:
    file = path / "jobs.sacct"
    file.write_text("\n".join([header, *lines]) + "\n")
    return file


def test_a_job_is_a_gang_of_its_account_and_its_steps_belong_to_it(tmp_path: Path) -> None:
    file = sacct(tmp_path, line("7"), line("7.batch"), line("7.0"), line("7.extern"))
    found = read(file, Complaints())
    [job] = found.jobs
    own = job.workload
    assert (own.name, own.queue, own.user, set(own.pools)) == ("7", "vision", "ada", {"gpu"})
    assert (job.duration_s, own.max_run_s) == (3600, 86400)
    assert own.submitted_s == 1717142400
    [group] = own.subgroups
    assert (group.tasks, group.shape) == (1, Shape(16000, 131072, 4, 1000))
    assert found.notes == ()


def test_nodes_models_array_tasks_and_older_amounts_of_memory(tmp_path: Path) -> None:
    uneven = "cpu=8,gres/gpu=5,node=2"
    file = sacct(
        tmp_path,
        line("8_1", ReqTRES=TWO, AllocTRES=TWO),
        line("8_2", ReqTRES="cpu=2,gres/gpu=8,node=2", AllocTRES=TWO),
        line("9+0", ReqTRES=uneven, AllocTRES=uneven, ReqMem="4Gc"),
        line("10", Eligible="2024-06-01T00:00:00", State="CANCELLED by 1000"),
    )
    one, two, uneven_job, late = read(file, Complaints()).jobs
    assert [(each.tasks, each.shape.gpus) for each in one.workload.subgroups] == [(2, 4)]
    assert one.workload.subgroups[0].shape.models == {"a100"}
    assert two.workload.subgroups[0].shape.models == frozenset()  # it asked for any
    groups = [(each.tasks, each.shape.gpus) for each in uneven_job.workload.subgroups]
    assert groups == [(1, 3), (1, 2)]
    assert uneven_job.workload.subgroups[0].shape.memory_mib == 16384
    assert late.workload.submitted_s == 1717200000  # since then nothing but room was missing


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    cpu_only = "cpu=4,mem=8G,node=1"
    mixed = "cpu=4,gres/gpu:a100=1,gres/gpu:t4=1,node=1"
    file = sacct(
        tmp_path,
        line("1"),
        line("2", ReqTRES=cpu_only, AllocTRES=cpu_only),
        line("3", State="RUNNING"),
        line("4_[5-9]", State="PENDING", ElapsedRaw="0"),
        line("5", State="CANCELLED by 0", ElapsedRaw="0", AllocTRES=""),
        line("6", ReqTRES=mixed, AllocTRES=mixed),
        line("1", ElapsedRaw="60", Submit="2024-05-31T12:00:00"),
    )
    found = read(file, Complaints())
    assert found.notes == (
        "Left out: 1 earlier runs of jobs that were requeued (the last run counts), "
        "2 jobs that had not ended, 1 jobs that never began, "
        "1 jobs with GPUs of several models at once, 1 jobs without GPUs.",
    )
    [job] = found.jobs
    assert (job.duration_s, job.workload.submitted_s) == (60, 1717142400)


def test_sacct_p_with_a_bar_at_the_end_and_seconds_since_1970(tmp_path: Path) -> None:
    file = tmp_path / "old.txt"
    file.write_text(
        "JobIDRaw|Submit|Elapsed|State|ReqTRES|\n3|1717142400|1-02:03:04|TIMEOUT|gres/gpu=1|\n"
    )
    assert is_history(file)
    [job] = read(file, Complaints()).jobs
    assert (job.duration_s, job.workload.submitted_s) == (93784, 1717142400)
    assert job.workload.queue == "default"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"ElapsedRaw": "soon"}, "line 3: job 2: ElapsedRaw is no number of seconds: 'soon'"),
        ({"Submit": "May"}, "line 3: job 2: 'May' is no time, such as 2024-05-31T08:00:00"),
        ({"AllocTRES": "gres/gpu=x,node=1"}, "line 3: job 2: gres/gpu is no whole number: 'x'"),
        ({"AllocTRES": "gres/gpu=1,mem=lots"}, "job 2: memory is no amount, such as 128G: 'lots'"),
        ({"Timelimit": "long"}, "line 3: job 2: Timelimit is no time, such as 1-02:03:04: 'long'"),
        (
            {"Submit": "Unknown", "Eligible": "Unknown"},
            "line 3: job 2: it has neither a Submit nor an Eligible time",
        ),
        ({"User": "a|b"}, "line 3: it has 17 values, and there are 16 columns"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused_or_counted(
    tmp_path: Path, made: dict[str, str], said: str
) -> None:
    file = sacct(tmp_path, line("1"), line("2", **made))
    with pytest.raises(TraceInvalid) as refused:
        read(file, Complaints())
    assert said in refused.value.what
    lenient = Complaints(is_lenient=True)
    assert [job.workload.name for job in read(file, lenient).jobs] == ["1"]
    assert lenient.count == 1


def test_a_missing_column_is_named_with_the_command_to_type(tmp_path: Path) -> None:
    file = sacct(tmp_path, header="JobID|Submit|State|AllocTRES")
    with pytest.raises(TraceInvalid) as refused:
        read(file, Complaints())
    assert "it has no column ElapsedRaw or Elapsed" in refused.value.what
    assert "sacct -a -X -P -o JobID" in refused.value.hint


def test_it_is_replayed_on_nodes_that_are_all_alike(tmp_path: Path) -> None:
    file = sacct(tmp_path, *(line(str(at), ElapsedRaw="600") for at in range(5)))
    trace = read_sacct(file, 8, complaints=Complaints())
    found = jobs_of(trace)
    assert sum(each.started_s == 1717142400 for each in found.values()) == 2
    assert all(each.ended_s for each in found.values())
    assert "CPUs and host memory were not looked at" in trace.notes[-1]


def test_models_need_nodes_that_have_them(tmp_path: Path) -> None:
    file = sacct(tmp_path, line("1", ReqTRES=TWO, AllocTRES=TWO))
    with pytest.raises(TraceInvalid, match="models a100, and --cluster has one"):
        read_sacct(file, None, complaints=Complaints())
    nodes = "name,cpu_milli,memory_mib,gpus,model,pool\n" + "".join(
        f"n{at},64000,512000,4,{model},{pool}\n"
        for at, model, pool in ((1, "t4", "gpu"), (2, "a100", "gpu"), (3, "a100", "gpu"))
    )
    (tmp_path / "nodes.csv").write_text(nodes)
    assert is_history(tmp_path)
    found = jobs_of(read_history(tmp_path))
    assert found["1"].nodes == ("n2", "n3")


def test_jobs_stay_in_their_partition_where_pools_are_named_after_them(tmp_path: Path) -> None:
    sacct(tmp_path, line("1"), line("2", Partition="long"))
    nodes = "name,cpu_milli,memory_mib,gpus,pool\na,64000,512000,8,long\nb,64000,512000,8,gpu\n"
    (tmp_path / "nodes.csv").write_text(nodes)
    found = jobs_of(read_history(tmp_path))
    assert found["1"].nodes == ("b",)
    assert found["2"].nodes == ("a",)
