"""`moiety attach`: what a workload writes, and commands beside it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from moiety.pool.model.states import WorkState
from moiety.testing.waiting import until
from tests.support.pool_node import MakePool

ONE = "A100-80:memory=96MiB"
MIB = 1 << 20
SAYS = "echo $MOIETY_JOB_ID; pwd; echo ${MOIETY_SOCKET:+shares}"


def test_it_follows_from_now_on_and_ends_as_the_workload_does(make_pool: MakePool) -> None:
    pool = make_pool(ONE)
    opens = pool.node.folder / "open"
    number = pool.submit(f"until [ -e {opens} ]; do echo waits; sleep 0.1; done; exit 4")
    until(lambda: pool.output(number), "it runs")

    def attached() -> subprocess.Popen[str]:
        listens = ("env", "--default-signal=INT")  # what runs tests may have it ignored
        return subprocess.Popen(
            [*listens, sys.executable, "-m", "moiety", "attach", str(number)], env=pool.node.env,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    leaves, stays = attached(), attached()
    for each in (leaves, stays):
        assert each.stdout
        assert each.stdout.readline() == "waits\n"
    inside = pool.node.cli("attach", str(number), "--", "sh", "-c", SAYS)
    assert inside.stdout.splitlines() == [str(number), str(pool.node.folder), "shares"]
    assert pool.node.cli("attach", str(number), "--", "false").returncode == 1
    missing = pool.node.cli("attach", str(number), "--", "no-such-program")
    assert (missing.returncode, "no-such-program: not found" in missing.stderr) == (127, True)
    folder = pool.node.cli("attach", str(number), "--", str(pool.node.folder))
    assert (folder.returncode, "Permission denied" in folder.stderr) == (126, True)
    leaves.send_signal(signal.SIGINT)
    _, said = leaves.communicate()
    assert leaves.returncode == 130, said
    assert f"workload {number} goes on" in said
    opens.touch()
    out, err = stays.communicate()
    assert stays.returncode == 1, err
    assert f"workload {number} is failed, exit code 4" in out
    over = pool.node.cli("attach", str(number), "--", "true")
    assert over.returncode != 0
    assert "only beside one that runs" in over.stderr


def test_a_program_that_outlives_the_work_beside_it_keeps_its_gpu(
    make_pool: MakePool, programs: Path, kernels: Path
) -> None:
    pool = make_pool(ONE)
    wait, opens = pool.gate("open")
    number = pool.submit(wait, gpus=1, environment=pool.node.env)
    pool.until_state(number, "running")
    worker = [str(programs / "worker"), str(kernels), str(60 * MIB), "1000000", "0", "0", "1"]
    beside = subprocess.Popen(
        [sys.executable, "-m", "moiety", "attach", str(number), "--", *worker],
        env=pool.node.env, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: pool.node.json("ps"), "it has memory of the GPU")
    next_ = pool.submit("true", gpus=1)
    opens.touch()
    assert pool.ended(number).state is WorkState.DONE
    until(
        lambda: "outside" in pool.node.cli("explain", str(next_)).stdout,
        "its GPU is known to be used",
    )
    row = pool.row(next_)
    assert (row.state, row.failures < 2) == (WorkState.PENDING, True), row
    beside.kill()
    beside.wait()
    assert pool.ended(next_).state is WorkState.DONE
