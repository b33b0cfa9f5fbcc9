"""What `scancel` asks of `srun`: signals that mean nothing else, and that it can catch."""

from __future__ import annotations

import signal

from moiety.slurm import step_requests
from moiety.slurm.step.runner import PASSED_ON


def test_each_request_has_a_signal_of_its_own() -> None:
    asked = [step_requests.CANCEL, *step_requests.INSTEAD_OF.values()]
    assert len(set(asked)) == len(asked)
    assert not set(asked) & set(PASSED_ON)
    assert all(signal.SIGRTMIN < each <= signal.SIGRTMAX for each in asked)


def test_what_cannot_be_caught_is_asked_for() -> None:
    assert set(step_requests.INSTEAD_OF) == {signal.SIGKILL, signal.SIGSTOP}
    assert step_requests.ASKED_BY[step_requests.INSTEAD_OF[signal.SIGKILL]] == signal.SIGKILL
