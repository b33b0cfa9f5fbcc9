"""The pool's server is killed at any moment: what runs goes on, and nothing submitted is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from moiety.model.errors import PoolError
from moiety.pool.model.states import WorkState
from moiety.pool.starter.records import Started, read_started
from moiety.pool.store import changes
from moiety.pool.store.database import connect
from moiety.testing.waiting import until
from tests.support.pool_node import MakePool, PoolNode

TWO = "2xA100-80:memory=96MiB"


def started(pool: PoolNode, number: int) -> Started:
    """What the supervisor of a workload has written."""
    found = until(lambda: read_started(pool.paths.of_workload(number)), "it has begun")
    assert isinstance(found, Started)
    return found


def change(pool: PoolNode, statement: str) -> None:
    """Change the store while no server has it."""
    connection = connect(pool.paths)
    connection.execute(statement)
    connection.close()


def test_what_runs_goes_on_and_is_taken_over(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    script, opens = pool.gate("open")
    running = [pool.submit(script) for _ in range(2)]
    waiting = pool.submit("echo later")
    for number in running:
        pool.until_state(number, "running")
    before = [started(pool, number).child for number in running]
    pool.kill()
    pool.up()
    assert [row.id for row in pool.live()] == [*running, waiting]
    assert pool.row(waiting).state is WorkState.PENDING, "their GPUs are theirs"
    assert [started(pool, number).child for number in running] == before
    opens.touch()
    for number in (*running, waiting):
        row = pool.ended(number)
        assert (row.state, row.attempt) == (WorkState.DONE, 1)
        assert pool.output(number) in ("runs\n", "later\n"), "nothing was started twice"


def test_a_time_limit_that_its_supervisor_was_not_told_is_told(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    script, _ = pool.gate("never")
    number = pool.submit(script, gpus=0, time_limit_s=3600.0)
    pool.until_state(number, "running")
    pool.kill()
    change(pool, f"UPDATE workload SET time_limit_s = 0.1 WHERE id = {number}")
    pool.up()
    assert pool.ended(number).state is WorkState.TIMED_OUT


def test_what_ended_meanwhile_is_known(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    script, opens = pool.gate("open")
    number = pool.submit(f"{script}; exit 4")
    pool.until_state(number, "running")
    supervisor = started(pool, number).supervisor
    pidfd = os.pidfd_open(supervisor.pid)
    pool.kill()
    opens.touch()
    until(lambda: not os.path.exists(f"/proc/{supervisor.pid}/exe"), "its supervisor has ended")
    os.close(pidfd)
    pool.up()
    row = pool.ended(number)
    assert (row.state, row.exit_code, row.attempt) == (WorkState.FAILED, 4, 1)


def test_a_program_that_has_lost_its_supervisor_is_ended_with_all_of_its_group(
    make_pool: MakePool,
) -> None:
    pool = make_pool(TWO)
    deaf = "trap '' TERM; sleep 600 & echo $!; wait; wait"
    before, after = pool.submit(deaf, gpus=0), pool.submit(deaf, gpus=0)
    for number in (before, after):
        pool.until_state(number, "running")
    until(lambda: pool.output(before).strip() and pool.output(after).strip(), "both have a child")
    children = [int(pool.output(number)) for number in (before, after)]
    os.kill(started(pool, before).supervisor.pid, signal.SIGKILL)
    assert pool.node.cli("cancel", str(before)).returncode == 0
    assert pool.node.cli("cancel", str(after)).returncode == 0
    os.kill(started(pool, after).supervisor.pid, signal.SIGKILL)
    for number in (before, after):
        assert pool.ended(number).reason.startswith("its supervisor was killed")
    until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in children), "all ended")


def test_every_submission_that_was_accepted_is_there(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    accepted: list[int] = []
    enough = threading.Event()

    def submit() -> None:
        while True:
            try:
                accepted.append(pool.submit("true", hold=True))
            except PoolError:
                return
            if len(accepted) >= 40:
                enough.set()

    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(submit)
        assert enough.wait(60)
        pool.kill()
    pool.up()
    known = {row.id for row in pool.live()}
    assert len(accepted) == len(set(accepted)), "no number is given twice"
    assert set(accepted) <= known
    assert len(known) <= len(accepted) + 4, "at most those whose answers were under way"


def test_an_attempt_that_was_committed_and_never_started_is_made_again(
    make_pool: MakePool,
) -> None:
    pool = make_pool(TWO)
    number = pool.submit("echo ran", hold=True)
    pool.kill()
    change(pool, f"UPDATE workload SET state = 'pending' WHERE id = {number}")
    connection = connect(pool.paths)
    assert changes.begin_attempt(connection, number, 1, [0], time.time()) is not None
    connection.close()
    pool.up()
    row = pool.ended(number)
    assert (row.state, row.attempt, row.failures) == (WorkState.DONE, 2, 0)
    assert pool.output(number) == "ran\n"


def test_a_start_that_was_not_written_down_is_found(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    script, opens = pool.gate("open")
    number = pool.submit(script)
    pool.until_state(number, "running")
    until(lambda: pool.output(number), "it runs")
    pool.kill()
    change(pool, f"UPDATE workload SET state = 'starting' WHERE id = {number}")
    pool.up()
    pool.until_state(number, "running")
    opens.touch()
    row = pool.ended(number)
    assert (row.state, row.attempt) == (WorkState.DONE, 1)
    assert pool.output(number) == "runs\n"


def test_a_cancellation_before_the_end_of_the_server_is_carried_out(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    script, _ = pool.gate("never")
    number = pool.submit(script)
    pool.until_state(number, "running")
    pool.kill()
    change(pool, f"UPDATE workload SET state = 'ending', intent = 'cancelled' WHERE id = {number}")
    pool.up()
    assert pool.ended(number).state is WorkState.CANCELLED


def test_a_program_without_its_supervisor_is_failed_once_it_ends(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    script, opens = pool.gate("open")
    number, next_one = pool.submit(script, gpus=2), pool.submit("true", gpus=2)
    pool.until_state(number, "running")
    os.kill(started(pool, number).supervisor.pid, signal.SIGKILL)
    assert pool.row(next_one).state is WorkState.PENDING
    opens.touch()
    row = pool.ended(number)
    assert (row.state, row.exit_code) == (WorkState.FAILED, None)
    assert "its supervisor was killed" in row.reason
    assert pool.ended(next_one).state is WorkState.DONE


def test_a_second_server_refuses(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    assert "is up already" in pool.up()
    refused = pool.node.start(
        ["python", "-m", "moiety.pool.server", str(pool.node.directory), "own", "-1"]
    )
    _, said = refused.communicate(timeout=60)
    assert (refused.returncode, "Traceback" in said) == (75, False), said


def test_a_store_that_is_no_database_is_named(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    assert "the pool is down" in pool.node.cli("down").stdout
    for file in pool.paths.folder.glob("pool.db-*"):
        file.unlink()
    pool.paths.database.write_bytes(b"this is not SQLite" * 1000)
    refused = pool.node.cli("up")
    assert refused.returncode == 65, refused.stderr
    assert str(pool.paths.database) in refused.stderr


def test_down_lets_work_run_on(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    script, opens = pool.gate("open")
    number = pool.submit(script)
    pool.until_state(number, "running")
    done = pool.node.cli("down")
    assert "1 workload runs on" in done.stdout, done.stderr
    refused = pool.node.cli("queue")
    assert (refused.returncode, "`moiety up`" in refused.stderr) == (69, True)
    opens.touch()
    assert "is up" in pool.up()
    assert pool.ended(number).state is WorkState.DONE
