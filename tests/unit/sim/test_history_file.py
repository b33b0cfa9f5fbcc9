"""The tables of a history: what they mean, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.model.errors import TraceInvalid, TraceMissing
from moiety.sim.history_file import is_history, read_history, with_failures
from moiety.sim.tables import open_trace
from tests.unit.sim.histories import NODES, folder, history

JOBS = "name,gpus,submitted_s,duration_s"


def test_a_machine_with_two_models_is_two_nodes_on_one_host(tmp_path: Path) -> None:
    nodes = (
        "name,cpu_milli,memory_mib,gpus,model,gpu_memory_mib,topology\n"
        "ws,30000,9000,,A100:2|T4:1,81920|16384,rack=r1\nn,8000,8000,4,A100,,rack=r1\n"
    )
    trace = history(tmp_path, JOBS + "\na,1,0,60\n", nodes)
    a100, t4, other = trace.nodes
    assert (a100.name, a100.model, len(a100.gpus), a100.cpu_milli) == ("ws/A100", "A100", 2, 20000)
    assert (t4.name, t4.gpu_memory_mib, t4.memory_mib) == ("ws/T4", 16384, 3000)
    assert a100.topology == t4.topology == (("rack", "r1"), ("host", "ws"))
    assert other.topology == (("rack", "r1"), ("host", "n"))


def test_tasks_that_come_and_stay_see_both_models_too(tmp_path: Path) -> None:
    nodes = "name,cpu_milli,memory_mib,gpus,model\nws,30000,9000,3,A100:2|T4:1\n"
    folder(tmp_path, "name,gpus\na,1\n", nodes)
    assert [node.name for node in open_trace(tmp_path, None, 0).nodes] == ["ws/A100", "ws/T4"]
    assert not is_history(tmp_path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("ws,8,8,4,A100:2|T4,,", "'T4' is not a model and its number of GPUs, as A100:4"),
        ("ws,8,8,4,A100:2|T4:1,,", "its models add up to 3 GPUs, and gpus is 4"),
        ("ws,8,8,,A100:2|A100:1,,", "it names the model A100 twice"),
        ("ws,8,8,,A100:60|T4:60,,", "it has more than 63 GPUs"),
        ("ws,8,8,,A100:1|T4:1,1|2|3,", "gpu_memory_mib has 3 numbers, and model has 2 models"),
        ("ws,8,8,1,A100,,r7", "'r7' is no domain of a topology, such as rack=r7"),
        ("ws,8,8,1,A100,,rack=a|rack=b", "topology names the level rack twice"),
    ],
)
def test_a_node_that_makes_no_sense(tmp_path: Path, row: str, said: str) -> None:
    nodes = f"name,cpu_milli,memory_mib,gpus,model,gpu_memory_mib,topology\n{row}\n"
    with pytest.raises(TraceInvalid) as refused:
        history(tmp_path, JOBS + "\na,1,0,60\n", nodes)
    assert f"nodes.csv, line 2: {said}" in refused.value.what


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("tasks", "0", "tasks is 0; a job has 1 to 100000 tasks"),
        ("min_tasks", "2", "min_tasks is 2, and the job has 1 tasks: write 1 to 1"),
        ("priority", "high", "priority is not a whole number: 'high'"),
        ("preemptible", "perhaps", "preemptible is 'perhaps': write yes or no"),
        ("domain", "rack:always", "write a level of the topology, as rack, or rack:preferred"),
        ("max_run_s", "0", "may run for 0 s"),
        ("pools", "spot", "j asks for pool spot, and there are: default"),
        ("models", "H100", "j asks for a GPU of model H100, and nodes have: GPU"),
        ("tasks", "3", "j could not begin on the empty cluster (3 x 8 GPUs"),
        ("domain", "rack", "j could not begin on the empty cluster"),
    ],
)
def test_a_job_that_makes_no_sense_or_can_never_run(
    tmp_path: Path, column: str, value: str, said: str
) -> None:
    jobs = f"{JOBS},user,{column}\nok,1,0,60,ada,\nj,8,0,60,ada,{value}\n"
    with pytest.raises(TraceInvalid) as refused:
        history(tmp_path, jobs)
    assert "jobs.csv, line 3: " in refused.value.what
    assert said in refused.value.what
    trace = read_history(tmp_path, lenient=True)
    assert [job.workload.name for job in trace.jobs] == ["ok"]
    assert trace.complaints.count == 1


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("5,burn,n1,", "what is 'burn', and not one of fail, drain, add, remove"),
        ("5,fail,n9,", "there is no node n9 that is always there: write its name"),
        ("-5,fail,n1,", "at_s is negative"),
    ],
)
def test_a_change_that_makes_no_sense(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(TraceInvalid) as refused:
        history(tmp_path, JOBS + "\na,1,0,60\n", changes=f"at_s,what,node,for_s\n{row}\n")
    assert f"changes.csv, line 2: {said}" in refused.value.what


def test_a_job_of_no_queue_and_one_that_is_there_twice(tmp_path: Path) -> None:
    jobs = JOBS + ",queue\na,1,0,60,vision\nb,1,0,60,\nc,1,0,60,lab\na,1,0,60,vision\n"
    queues = "name,parent,quota_gpus\nlab,,8\nvision,lab,8\n"
    with pytest.raises(TraceInvalid, match=r"jobs.csv, line 3: b is of queue \(none\)"):
        history(tmp_path, jobs, queues=queues)
    told = read_history(tmp_path, lenient=True).complaints.told
    assert told[1:] == [
        "jobs.csv, line 4: c is of queue lab, which only has queues below it",
        "jobs.csv, line 5: a is in line 2 already",
    ]


def test_a_folder_without_jobs(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "queues.csv").write_text("name,quota_gpus\nq,1\n")
    with pytest.raises(TraceMissing, match="it has no jobs"):
        read_history(tmp_path)


def test_a_machine_with_two_models_fails_as_a_whole_and_failures_are_the_seeds(
    tmp_path: Path,
) -> None:
    nodes = "name,cpu_milli,memory_mib,gpus,model\nws,8000,8000,,A100:2|T4:1\n"
    jobs = JOBS + "\na,1,0,60\nb,1,90000,60\n"
    trace = history(tmp_path, jobs, nodes, changes="at_s,what,node\n5,fail,ws\n")
    assert [(each.what, each.node) for each in trace.changes] == [
        ("down", "ws/A100"),
        ("down", "ws/T4"),
    ]
    more = with_failures(trace, 3600.0, 600.0, 1)
    assert len(more.changes) > 20
    assert more == with_failures(trace, 3600.0, 600.0, 1)
