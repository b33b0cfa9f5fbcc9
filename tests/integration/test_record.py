"""What a real agent decided is recorded, and the arbiter decides the same once more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from moiety.agent.control.client import Call
from moiety.agent.control.protocol import RecordingPage
from moiety.arbiter.replay import replay
from moiety.model.errors import FileExists
from moiety.testing.node import Node, finish
from moiety.trace.event_recording import Fetched
from tests.support.fault_injection import Ordeal, cases

MakeNode = Callable[[str], Node]
SMALL = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
SHORT = ("--turn-min", "2ms", "--turn-factor", "0")


def test_two_programs_are_recorded_and_replayed(
    make_node: MakeNode, programs: Path, kernels: Path, tmp_path: Path
) -> None:
    node = make_node(SMALL)
    node.start_agent(*SHORT)
    file = str(tmp_path / "events.recording")
    worker = [programs / "worker", kernels, 60 << 20, 40, 3, 0, 1]
    both = [node.run(worker, "--name", f"sesame-{number}") for number in range(2)]
    assert [finish(each)[0] for each in both] == [0, 0]
    assert node.json("agent", "record", file)["events"] > 50
    text = Path(file).read_text()
    assert "sesame" not in text
    assert text.count('"Revoke"') > 2, "they took turns"
    again = node.cli("agent", "replay", file)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.endswith(": the same\n")
    assert node.cli("agent", "record", file).returncode == FileExists.exit_code, (
        "it is not replaced"
    )


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "times", [pytest.param(3, marks=pytest.mark.slow), pytest.param(200, marks=pytest.mark.soak)]
)
def test_a_soak_is_replayed(tmp_path: Path, native: Path, programs: Path, times: int) -> None:
    """Whoever is struck at whatever step: what the agent decided then is decided again."""
    events = 0
    with Ordeal(tmp_path, native, programs / "worker") as ordeal:
        for _, case in zip(range(times), cases(Random(3)), strict=False):
            ordeal.suffer(case)
            fetched = Fetched()
            with Call(ordeal.directory) as call:
                fetched.fetch(lambda request: call.ask(request, RecordingPage))
            found = replay(fetched.checkpoint, fetched.steps())
            assert found.difference is None, f"{case}: {found.difference}"
            events += found.events
    print(f"{events} events were decided again")
    assert events > 50 * times
