"""`moiety queue --watch`: the list comes again when something changes, and ends with the pool."""

from __future__ import annotations

import subprocess
import sys

from moiety.testing.node import Lines, kill
from tests.support.pool_node import MakePool, PoolNode


def watch(pool: PoolNode) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "moiety", "queue", "--watch"],
        env=pool.node.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_list_comes_again_after_a_change(make_pool: MakePool) -> None:
    pool = make_pool("2xA100-80:memory=96MiB")
    first = pool.submit("true", name="before", hold=True)
    watching = watch(pool)
    try:
        lines = Lines(watching.stdout)
        assert lines.next().startswith("ID")
        assert lines.next().split()[:2] == [str(first), "before"]
        second = pool.submit("true", name="after", hold=True)
        assert lines.next().startswith("ID")
        assert lines.next().split()[:2] == [str(first), "before"]
        assert lines.next().split()[:2] == [str(second), "after"]
        pool.node.cli("down")
        _, err = watching.communicate(timeout=60)
        assert watching.returncode == 69, err
        assert "the pool" in err
    finally:
        kill(watching)


def test_it_ends_without_a_word_when_its_reader_goes_away(make_pool: MakePool) -> None:
    pool = make_pool("2xA100-80:memory=96MiB")
    watching = watch(pool)
    try:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert watching.stdout.readline().startswith("ID")
        watching.stdout.close()
        pool.submit("true", hold=True)
        assert watching.wait(60) == 1, "as `moiety queue | head -1`"
        with watching.stderr as errors:
            assert errors.read() == "", "the pool did answer"
    finally:
        kill(watching)
