"""What `srun` says of a step: Slurm's words, and nothing of steps where there is none."""

from __future__ import annotations

import signal

import pytest

from moiety.slurm.step.notes import StepNotes

NOTES = StepNotes("srun", "gpu7", "12.0")


def test_processes_that_end_at_once_are_told_together(capsys: pytest.CaptureFixture[str]) -> None:
    NOTES.ended([(3, -9), (0, 0), (1, 4), (2, -9), (5, -9)])
    assert capsys.readouterr().err == (
        "srun: error: gpu7: task 1: Exited with exit code 4\n"
        "srun: error: gpu7: tasks 2-3,5: Killed\n"
    )


def test_a_step_that_is_cancelled_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    NOTES.aborted()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("srun: Job step aborted: ")
    assert second.startswith("slurmstepd-gpu7: error: *** STEP 12.0 ON gpu7 CANCELLED AT 2")


def test_only_an_end_that_was_asked_for_was_forced(capsys: pytest.CaptureFixture[str]) -> None:
    NOTES.forced([signal.SIGSEGV])
    assert capsys.readouterr().err == ""
    NOTES.forced([signal.SIGSEGV, signal.SIGTERM])
    assert capsys.readouterr().err == "srun: Force Terminated StepId=12.0\n"


def test_a_first_interrupt_names_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    NOTES.interrupted({0: None, 1: 3, 2: 0, 3: 137, 4: None})
    assert capsys.readouterr().err == (
        "srun: interrupt (one more within 1 sec to abort)\n"
        "srun: StepId=12.0 tasks 0,4: running\n"
        "srun: StepId=12.0 tasks 1,3: exited abnormally\n"
        "srun: StepId=12.0 task 2: exited\n"
    )
    NOTES.interrupting()
    NOTES.forcing()
    assert capsys.readouterr().err.splitlines()[:2] == [
        "srun: sending Ctrl-C to StepId=12.0",
        "srun: forcing job termination",
    ]


def test_the_command_of_salloc_is_no_step(capsys: pytest.CaptureFixture[str]) -> None:
    notes = StepNotes("salloc", "gpu7")
    notes.terminating()
    notes.interrupting()
    notes.forcing()
    notes.forced([signal.SIGKILL])
    assert capsys.readouterr().err == ""


def test_quietly_only_errors_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    notes = StepNotes("srun", "gpu7", "12.0", is_quiet=True)
    notes.forced([signal.SIGKILL])
    notes.interrupted({0: None})
    notes.ended([(0, 3)])
    assert capsys.readouterr().err == "srun: error: gpu7: task 0: Exited with exit code 3\n"
