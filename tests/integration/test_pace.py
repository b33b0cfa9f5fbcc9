"""The bounded queue, by counting: kernels that were submitted less those that the GPU has begun."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Node
from moiety.testing.waiting import DEADLINE_S
from moiety.wire.layout import Type
from moiety.wire.messages import LeaseNoteMessage
from tests.support.native import compile_c
from tests.support.wire_fakes import FakeAgent

ROOT = Path(__file__).resolve().parents[2]
BOUND_US = 2000
LENGTH_US = 100
FITS = BOUND_US // LENGTH_US
SLACK = 3
"""kernels' lengths are learned, and no two are the same"""
LOOKS = 200
GRAPH_KERNELS = 10
REVOKES = 20
TIGHT_US = 990
"""just below the bounds that cost no throughput"""
TIGHT_LENGTH_US = 200


class Submitter:
    """A program that submits as fast as it may, and the agent that bounds it or does not."""

    def __init__(self, agent: FakeAgent, process: subprocess.Popen[str]) -> None:
        self.agent = agent
        self.process = process
        self.listening = threading.Thread(target=self._listen, daemon=True)

    def _listen(self) -> None:
        try:
            while True:
                self.agent.hear(0.1)
        except (EOFError, OSError):
            return

    def look(self) -> tuple[int, int]:
        """How many kernels were submitted so far, and how many of them begun."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        submitted, begun = self.process.stdout.readline().split()
        return int(submitted), int(begun)

    def outstanding(self) -> int:
        """How many are submitted and not begun."""
        submitted, begun = self.look()
        return submitted - begun

    def window(self, looks: int) -> list[int]:
        """How many were outstanding in so many looks, sorted; the GPU went on between each two."""
        found: list[int] = []
        last = -1
        while len(found) < looks:
            submitted, begun = self.look()
            if begun != last:
                found.append(submitted - begun)
                last = begun
        return sorted(found)

    def end(self) -> None:
        """It ends well: whatever it checks by itself held."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.listening.join(60)


@pytest.fixture(scope="module")
def paced(native: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The program, and its kernel."""
    folder = tmp_path_factory.mktemp("paced")
    own = ROOT / "tests" / "native" / "programs"
    include = f"-I{ROOT / 'native'}"
    driver = str(native / "simgpu" / "libcuda.so.1")
    compile_c([own / "paced_kernels.c"], folder / "ticks.elf", shared=True, flags=(include,))
    compile_c([own / "paced.c"], folder / "paced", flags=(include, driver, "-ldl", "-lpthread"))
    return folder / "paced", folder / "ticks.elf"


@pytest.fixture
def submit(
    make_node: Callable[[str], Node], paced: tuple[Path, Path], native: Path
) -> Iterator[Callable[..., Submitter]]:
    node = make_node("A100-80:memory=64MiB")
    agents: list[FakeAgent] = []

    def start(mode: str, length_us: int, bound_us: int, *before: str) -> Submitter:
        path = node.directory / "pace.sock"
        agent = FakeAgent(path)
        agents.append(agent)
        program, kernels = paced
        process = node.start(
            [*before, str(program), mode, str(kernels), str(length_us)],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": str(native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(path),
            },
        )
        agent.accept()
        agent.pace(bound_us)
        agent.until(Type.CONTEXT)
        found = Submitter(agent, process)
        found.listening.start()
        node.until(lambda: found.look()[1] > 2 * FITS or length_us > BOUND_US, "it runs")
        return found

    yield start
    for agent in agents:
        agent.__exit__(None, None, None)


def comes_to_hold(look: Callable[[], list[int]], holds: Callable[[list[int]], bool]) -> None:
    """Soon what is found is as it should be. Where no bound holds it never is.

    Not at once: a machine that is late makes kernels look longer or shorter than they are, and the
    lengths that were learned from that are right again some batches later.
    """
    deadline = time.monotonic() + DEADLINE_S
    while not holds(found := look()):
        assert time.monotonic() < deadline, found


@pytest.mark.parametrize(
    "mode", ["one", "several", "threads", "legacy", "own", "graphs", "captures"]
)
def test_what_is_submitted_and_not_done_is_bounded(
    mode: str, submit: Callable[..., Submitter]
) -> None:
    program = submit(mode, LENGTH_US, BOUND_US)

    def is_bounded(found: list[int]) -> bool:
        return (
            found[LOOKS // 2] <= 2 * FITS and found[LOOKS * 9 // 10] <= SLACK * FITS + GRAPH_KERNELS
        )

    comes_to_hold(lambda: program.window(LOOKS), is_bounded)
    program.end()


def test_of_kernels_longer_than_the_bound_one_waits_beside_the_one_that_runs(
    submit: Callable[..., Submitter],
) -> None:
    program = submit("one", 10 * BOUND_US, BOUND_US)
    comes_to_hold(lambda: program.window(8), lambda found: found[-1] <= 2 and found[4] >= 1)
    program.end()


def at_once() -> tuple[str, ...]:
    """What has a program get a processor at once, also where others want it."""
    before = ("chrt", "--rr", "1")
    if subprocess.run([*before, "true"], capture_output=True).returncode:
        pytest.skip("needs the right to use real-time priorities (CAP_SYS_NICE)")
    return before


def test_a_thread_that_is_in_time_has_little_queued_under_a_tight_bound(
    submit: Callable[..., Submitter],
) -> None:
    program = submit("one", TIGHT_LENGTH_US, TIGHT_US, *at_once())
    # one waits beside the one that runs
    comes_to_hold(lambda: program.window(60), lambda found: found[45] <= 1)
    program.end()


def test_one_whose_gpu_runs_dry_has_the_whole_of_a_tight_bound(
    submit: Callable[..., Submitter],
) -> None:
    program = submit("late", TIGHT_LENGTH_US, TIGHT_US, *at_once())
    comes_to_hold(lambda: program.window(60), lambda found: found[45] >= 2)
    program.end()


def test_nothing_is_bounded_until_it_is_said_and_after_it_is_taken_back(
    submit: Callable[..., Submitter],
) -> None:
    program = submit("one", LENGTH_US, 0)
    while program.outstanding() < 20 * FITS:
        pass
    program.agent.pace(BOUND_US)
    while program.outstanding() > 2 * FITS:
        pass
    program.agent.pace(0)
    while program.outstanding() < 20 * FITS:
        pass
    program.end()


def test_streams_and_contexts_that_are_gone_are_forgotten(
    submit: Callable[..., Submitter],
) -> None:
    program = submit("passing", 20, BOUND_US)
    first, _ = program.look()
    while program.look()[0] < first + 1000:
        pass
    program.end()


def test_work_that_waits_for_its_own_thread_is_not_held_back_for_ever(
    submit: Callable[..., Submitter],
) -> None:
    program = submit("stalled", 20, BOUND_US)
    program.end()


def test_a_revoke_finds_little_to_wait_for(submit: Callable[..., Submitter]) -> None:
    program = submit("threads", LENGTH_US, BOUND_US)
    agent = program.agent
    assert agent.page is not None
    waited_for: list[int] = []

    def revoke() -> list[int]:
        assert agent.page is not None
        agent.page.close(agent.epoch)
        agent.send(LeaseNoteMessage(Type.REVOKE, 0, agent.epoch))
        _, begun = program.look()
        while program.outstanding():
            pass
        submitted, _ = program.look()
        agent.grant()
        while program.look()[0] <= submitted + FITS:
            pass
        waited_for.append(submitted - begun)
        return sorted(waited_for[-REVOKES:])

    def is_little(found: list[int]) -> bool:
        return len(found) == REVOKES and found[-2] <= SLACK * FITS + GRAPH_KERNELS

    comes_to_hold(revoke, is_little)
    program.end()
