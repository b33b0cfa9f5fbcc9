"""`scontrol` and `scancel` without a pool: lists of hosts, what a job's lines say, refusals."""

from __future__ import annotations

import pytest

from moiety.pool.model.states import WorkState
from moiety.slurm import times
from moiety.slurm.labels import JobLabels
from moiety.slurm.show import acts, job_lines, scancel, scontrol
from moiety.slurm.show.options import UsageError
from moiety.slurm.show.updates import amendment_of
from tests.support.slurm_rows import job_of, ran


def test_hosts_are_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scontrol.main(["show", "hostnames", "n[1-2]"]) == 0
    assert scontrol.main(["show", "hostlist", "a1,a2,b"]) == 0
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu7")
    assert scontrol.main(["show", "hostname"]) == 0
    assert capsys.readouterr().out == "n1\nn2\na[1-2],b\ngpu7\n"


def test_a_job_has_slurms_keys_in_slurms_order() -> None:
    job = job_of(JobLabels(command="/a/j.sh", comment="mine", cpus=4, cpus_per_task=4),
                 **ran("failed", exit_code=3, stdout="/a/out", stderr="/a/err"))  # fmt: skip
    lines = job_lines.lines_of(job)
    keys = [part.split("=", 1)[0] for line in lines for part in line.split() if "=" in part]
    assert keys[:4] == ["JobId", "JobName", "UserId", "GroupId"]
    text = "\n".join(lines)
    for part in ("JobState=FAILED Reason=NonZeroExitCode", "ExitCode=3:0", "RunTime=00:01:02",
                 "NumCPUs=4 NumTasks=1 CPUs/Task=4", "Command=/a/j.sh", "StdOut=/a/out",
                 "Comment=mine", "TresPerNode=gres:gpu:2"):  # fmt: skip
        assert part in text, part


def test_an_array_says_which_of_it_waits() -> None:
    task = job_of(id=20, array_id=20, array_index=3, array_at_once=2)
    assert job_lines.lines_of(task)[0] == (
        "JobId=20 ArrayJobId=20 ArrayTaskId=3 ArrayTaskThrottle=2 JobName=sweep"
    )


def test_the_engines_sentence_is_shown_where_no_comment_is() -> None:
    job = job_of(kind="gpus-full", why="too few GPUs", state=WorkState.PENDING)
    assert "   Comment=too few GPUs" in job_lines.lines_of(job)


def test_what_cannot_begin_yet_says_when_it_can() -> None:
    at_s = 4e9  # later than now
    stamp = times.stamp(at_s)
    found = [
        job_of(state=WorkState.PENDING, begin_after_s=at_s),
        job_of(state=WorkState.HELD, begin_after_s=at_s),
        job_of(state=WorkState.PENDING, blocked="waits"),
    ]
    eligible = [("\n".join(job_lines.lines_of(job)), job.start_s) for job in found]
    assert [f"EligibleTime={stamp}" in text for text, _ in eligible] == [True, False, False]
    assert all("AccrueTime=Unknown" in text for text, _ in eligible)
    assert [start for _, start in eligible] == [at_s, None, None]


def test_a_script_without_a_file_has_no_command() -> None:
    wrap = job_of(JobLabels(program="sbatch"), command="/bin/sh {script}")
    assert "   Command=(null)" in job_lines.lines_of(wrap)
    assert "   Command=sh -c x" in job_lines.lines_of(job_of(command="sh -c x"))


def test_what_can_be_updated_becomes_a_request() -> None:
    assert amendment_of({"timelimit": "1-0", "nice": "10", "jobname": "b"}) == {
        "time_limit_s": 86400.0, "priority": -10, "name": "b",
    }  # fmt: skip
    assert amendment_of({"timelimit": "UNLIMITED"}) == {"time_limit_s": None}
    assert amendment_of({"comment": "so"}) == {"labels": {"slurm.comment": "so"}}
    for values in ({"numnodes": "2"}, {"timelimit": "soon"}, {"nice": "x"}, {}):
        with pytest.raises(UsageError):
            amendment_of(values)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bogus"], "invalid keyword: bogus"),
        (["show", "bogus"], "invalid entity:bogus for keyword:show "),
        (["show", "hostnames", "n[1-"], "Invalid hostlist: n[1-"),
        (["update", "foo=1"], "No valid entity in update command"),
        (["update", "jobid=1", "bogus=3"], "Update of this parameter is not supported: bogus=3"),
        (["top", "1"], "Requested operation is presently disabled: in a pool the engine orders"),
        (["show", "job", "abc"], "scontrol_print_job error: Invalid job id specified"),
    ],
)
def test_what_scontrol_refuses(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("MOIETY_DIR", str(tmp_path))
    assert scontrol.main(words) == 1
    assert capsys.readouterr().err.splitlines()[0] == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "scancel: error: No job identification provided"),
        (["abc"], "scancel: error: Invalid job id abc"),
        (["-s", "BOGUS", "1"], "Unknown job signal: BOGUS"),
        (["-t", "XX"], "Invalid job state specified: XX"),
        (["-u", "no-such-user"], "scancel: error: Invalid user name: no-such-user"),
        (["--bogus"], "scancel: unrecognized option '--bogus'"),
    ],
)
def test_what_scancel_refuses(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scancel.main(words) == 1
    assert capsys.readouterr().err.splitlines()[0] == said


def test_signals_have_names_and_numbers() -> None:
    assert [acts.signal_number(each) for each in ("USR1", "sigusr1", "10", "X", "0")] == [
        10, 10, 10, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["write", "batch_script", ""], "Invalid job id specified for job "),
        (["hold", ""], "Invalid job id specified for job "),
        (["write", "batch_script"], "too few arguments for keyword:write"),
        (["write", "foo", "1"], "invalid entity:foo for keyword:write "),
    ],
)
def test_words_that_name_no_job_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert scontrol.main(words) == 1
    assert capsys.readouterr().err == f"{said}\n"
