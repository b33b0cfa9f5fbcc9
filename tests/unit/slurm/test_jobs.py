"""Jobs as they are shown: times, numbers, and arrays that are one line."""

from __future__ import annotations

from moiety.pool.model.states import WorkState
from moiety.slurm.labels import JobLabels
from moiety.slurm.show.jobs import folded, of_page
from tests.support.slurm_rows import NOW_S, job_of, ran, row_of


def test_what_was_said_counts_before_what_the_pool_has() -> None:
    plain = job_of()
    assert (plain.partition, plain.account, plain.gres) == ("pool", "nlp", "gres:gpu:2")
    said = job_of(JobLabels(partition="a100,v100", account="lab", gres="gpu:a100:2", cpus=8,
                            mem_mib=4096, work_dir="/home/a"))  # fmt: skip
    assert (said.partition, said.account, said.gres) == ("a100", "lab", "gres:gpu:a100:2")
    assert (said.cpus, said.memory_mib, said.work_dir) == (8, 4096, "/home/a")


def test_a_name_with_spaces_is_shown_until_it_is_changed() -> None:
    labels = JobLabels(name="my job")
    assert job_of(labels, name="my_job").name == "my job"
    assert job_of(labels, name="other").name == "other"
    assert job_of(name="").name == "(null)"


def test_time_in_which_it_was_suspended_does_not_count() -> None:
    assert job_of(**ran()).ran_s == 62.0
    assert job_of(**ran(suspended_s=20.0)).ran_s == 42.0
    resting = job_of(state=WorkState.SUSPENDED, began_s=NOW_S - 100, suspended_since_s=NOW_S - 30)
    assert resting.ran_s == 70.0
    assert job_of().ran_s == 0.0


def test_the_end_is_that_of_the_time_limit_at_the_latest() -> None:
    runs = job_of(state=WorkState.RUNNING, began_s=9_500.0, time_limit_s=3600.0)
    assert (runs.start_s, runs.end_s) == (9_500.0, 13_100.0)
    assert job_of(**ran()).end_s == 9_162.0
    never = job_of(state=WorkState.CANCELLED, ended_s=9_200.0)
    assert (never.start_s, never.nodes) == (9_200.0, "")


def test_waiting_tasks_of_an_array_are_one_job() -> None:
    tasks = [job_of(id=20 + at, array_id=20, array_index=at, array_at_once=2) for at in range(4)]
    runs = job_of(id=24, array_id=20, array_index=4, state=WorkState.RUNNING, began_s=9_500.0)
    again = job_of(id=25, array_id=20, array_index=5, attempt=1)
    shown = [job.shown_id for job in folded([job_of(), *tasks, runs, again])]
    assert shown == ["7", "20_[0-3%2]", "20_4", "20_5"]
    assert [job.shown_id for job in tasks[:2]] == ["20_0", "20_1"]


def test_a_page_has_why_each_one_waits() -> None:
    page = {"rows": [row_of(), row_of(id=8)], "waiting": {"8": {"kind": "reserved", "text": "so"}}}
    first, second = of_page(page, "gpu1")
    assert (first.kind, second.kind, second.why) == ("", "reserved", "so")
