"""`make gpu-check`: does it hold on a real GPU what the tests show on simgpu?

Three programs, each of which wants most of what a lowered --capacity leaves, take turns on the
first GPU and check every byte; then limits, a killed program and a killed agent. Nothing is
changed on the card, and no more of it is used than CAPACITY and a few contexts.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from demo import run as demo
from moiety.testing.node import Node, finish, kill

CAPACITY_BYTES = 4 << 30
EACH_BYTES = 3 << 30
NO_GPU = 69
"""EX_UNAVAILABLE: nothing was checked"""

Workers = list[list[str]]


def start(node: Node, kernels: Path, workers: Workers, rounds: int) -> list[demo.Running]:
    """All of them at once, each with a seed of its own."""
    return [
        node.run([*worker, kernels, str(EACH_BYTES), str(rounds), "20", "0", str(seed)])
        for seed, worker in enumerate(workers)
    ]


def must_be_right(programs: list[demo.Running]) -> None:
    """Every program found every word right."""
    for program in programs:
        code, out, err = finish(program)
        assert (code, out) == (0, "0 words wrong\n"), err


def turns(node: Node) -> int:
    """Leases so far of those that are there now."""
    return sum(row["handoffs"] for row in node.json("ps"))


def take_turns(node: Node, kernels: Path, workers: Workers) -> str:
    """More memory than there is: turns, and every byte right."""
    programs = start(node, kernels, workers, 40)
    most = 0

    def ended() -> bool:
        nonlocal most
        most = max(most, turns(node))
        return all(program.poll() is not None for program in programs)

    node.until(ended, "all programs have ended")
    must_be_right(programs)
    assert most > len(workers), "nobody took turns"
    return f"{most} turns"


def refuse(node: Node, kernels: Path, workers: Workers) -> str:
    """A limit is an ordinary out-of-memory error."""
    command = [*workers[0], kernels, str(EACH_BYTES), "1", "0", "0", "1"]
    code, _, err = finish(node.run(command, "--memory-limit", "1GiB"))
    assert (code, "error 2" in err) == (1, True), err
    return "refused at 1 GiB"


def lose_a_program(node: Node, kernels: Path, workers: Workers) -> str:
    """One is killed in the middle; the others are right."""
    programs = start(node, kernels, workers, 30)
    node.until(lambda: turns(node) >= 2 * len(workers), "turns are taken")
    kill(programs[0])
    must_be_right(programs[1:])
    return "the others are right"


def lose_the_agent(node: Node, kernels: Path, workers: Workers) -> str:
    """The agent is killed in the middle; the next one takes over."""
    programs = start(node, kernels, workers, 30)
    node.until(lambda: turns(node) >= 2 * len(workers), "turns are taken")
    assert node.agent is not None
    kill(node.agent)
    node.start_agent("--capacity", str(CAPACITY_BYTES), "--turn-min", "50ms")
    must_be_right(programs)
    return "all are right"


CHECKS: tuple[Callable[[Node, Path, Workers], str], ...] = (
    take_turns,
    refuse,
    lose_a_program,
    lose_the_agent,
)


def main() -> int:
    """Run every check; 0 when all hold."""
    if not demo.has_gpu():
        print("gpu-check: no NVIDIA GPU here, so nothing was checked", file=sys.stderr)
        return NO_GPU
    failed = 0
    with tempfile.TemporaryDirectory(prefix="mty") as name:
        folder = Path(name)
        kernels, workers = demo.build(folder, simulated=False)
        with Node(folder, None) as node:
            node.start_agent("--capacity", str(CAPACITY_BYTES), "--turn-min", "50ms")
            print(f"gpu-check: {node.json('status')['gpus'][0]['name']}")
            for check in CHECKS:
                try:
                    said = check(node, kernels, workers)
                except AssertionError as error:
                    failed += 1
                    said = f"FAILED: {error}"
                print(f"  {check.__doc__}  {said}", flush=True)
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
