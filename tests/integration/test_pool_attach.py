"""`moiety attach`: what a workload writes, and commands beside it."""

from __future__ import annotations

import signal
import subprocess
import sys

from moiety.testing.waiting import until
from tests.support.pool_node import MakePool

ONE = "A100-80:memory=96MiB"
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
