"""`moiety trace` on a real agent: what a scripted hand-off leaves behind, and where it goes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moiety.agent.control.protocol import Recorded, TimelineRequest
from moiety.agent.control.rows import Span
from moiety.model import errors
from moiety.testing.node import Node
from moiety.trace.recording import Recording
from moiety.wire.layout import Refusal, Type
from moiety.wire.messages import AmountMessage
from tests.integration.verified import assert_right
from tests.support.chrome_trace import check, load
from tests.support.foreground import AgentProcess, pretended_native, uuid_of
from tests.support.wire_fakes import Shim

GIB = 1 << 30
CARD = 16 * GIB
ARGUMENTS = ["--turn-min", "1ms", "--linger", "0", "--arena", "64GiB"]


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretended_native(tmp_path_factory.mktemp("native"), CARD, CARD)


@pytest.fixture
def agent(tmp_path: Path, pretended: Path) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path / "a", pretended, ARGUMENTS) as running:
        yield running


@pytest.fixture
def shims(agent: AgentProcess) -> Iterator[Callable[[], Shim]]:
    made: list[Shim] = []

    def make() -> Shim:
        made.append(Shim(agent.workload()))
        return made[-1]

    yield make
    for shim in made:
        shim.close()


Shims = Callable[[], Shim]


def moiety(agent: AgentProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "moiety", *arguments],
        env=agent.environment,
        capture_output=True,
        text=True,
    )


def recorded(agent: AgentProcess) -> Recording:
    recording = Recording()
    with agent.call() as call:
        recording.fetch(lambda request: call.ask(request, Recorded))
    recording.close()
    return recording


def hand_off(shims: Shims) -> tuple[Shim, Shim]:
    """The first has the GPU and 10 GiB, then the second its 10 GiB, then the first again."""
    first, second = shims(), shims()
    first.hello("first")
    second.hello("second")
    for shim in (first, second):
        shim.attach(uuid_of(0))
        shim.context(0)
    first.allocated(0, 10 * GIB)
    second.alloc(0, 10 * GIB)
    first.expect(Type.REVOKE)
    first.want()
    first.drain({0: 10 * GIB})
    moved = first.expect(Type.EVICT).bytes  # type: ignore[attr-defined]
    first.evicted(0, moved - GIB, 10 * GIB - moved + GIB, flags=0)
    first.evicted(0, GIB, 10 * GIB - moved)
    second.expect(Type.GRANT)
    second.expect(Type.REVOKE)
    second.drain({0: 10 * GIB})
    moved = second.expect(Type.EVICT).bytes  # type: ignore[attr-defined]
    second.evicted(0, moved, 10 * GIB - moved)
    first.expect(Type.RESTORE_BUDGET)
    first.restored()
    first.expect(Type.GRANT)
    return first, second


def kinds(spans: list[Span], tenant: int) -> list[str]:
    """Its kinds in order; in the queue and chosen are both waiting, and the first may be over at
    once, so equal neighbours count as one."""
    own = [span.kind for span in spans if span.tenant == tenant]
    return [kind for kind, _ in itertools.groupby(own)]


def test_a_scripted_hand_off_is_told_span_by_span(agent: AgentProcess, shims: Shims) -> None:
    first, second = hand_off(shims)
    found = recorded(agent)
    assert kinds(found.spans, first.tenant) == [
        "joined",
        "held",
        "draining",
        "evicting",
        "waiting",
        "restoring",
    ]
    assert kinds(found.spans, second.tenant) == [
        "joined",
        "waiting",
        "held",
        "draining",
        "evicting",
    ]
    assert kinds(found.open, first.tenant) == ["held"]
    by_kind = {(span.tenant, span.kind): span for span in found.spans}
    out, back = by_kind[first.tenant, "evicting"], by_kind[first.tenant, "restoring"]
    assert out.bytes == back.bytes > 0
    assert by_kind[first.tenant, "held"].end_s == by_kind[first.tenant, "draining"].begin_s
    assert by_kind[second.tenant, "held"].begin_s == by_kind[second.tenant, "waiting"].end_s
    ends = [span.end_s for span in found.spans]
    assert ends == sorted(ends)
    assert found.label(first.tenant) == f"first (pid {os.getpid()})"


def test_a_holder_that_waits_for_memory_is_seen_to_wait(agent: AgentProcess, shims: Shims) -> None:
    first, second = shims(), shims()
    for shim, size in ((first, 10 * GIB), (second, GIB)):
        shim.hello()
        shim.attach(uuid_of(0))
        shim.allocated(0, size)
    serial = second.alloc(0, 8 * GIB)
    first.expect(Type.REVOKE)
    first.drain({0: 10 * GIB})
    first.expect(Type.EVICT)
    first.evicted(0, 10 * GIB, 0)
    second.reply(serial, AmountMessage)
    (found,) = [span for span in recorded(agent).spans if span.kind == "growing"]
    assert (found.tenant, found.end_s > found.begin_s) == (second.tenant, True)


def test_a_refusal_is_remembered_with_its_sentence(agent: AgentProcess, shims: Shims) -> None:
    shim = shims()
    shim.hello("greedy")
    shim.attach(uuid_of(1))
    shim.alloc(1, 100 * GIB)
    text = shim.refused(Refusal.LIMIT).text
    refused = next(span for span in recorded(agent).spans if span.kind == "refused")
    assert (refused.gpu, refused.detail) == (1, text)


def test_pages_tell_as_much_as_one(agent: AgentProcess, shims: Shims) -> None:
    shim = shims()
    shim.hello()
    shim.attach(uuid_of(0))
    shim.allocated(0, GIB)
    for _ in range(700):
        shim.free(0, 1, 1)
        shim.allocated(0, 1)
    with agent.call() as call:
        page = call.ask(TimelineRequest(), Recorded)
        assert page.more
        assert page.open == []
    found = recorded(agent)
    assert len(found.samples) >= 1400
    assert found.samples[-1].resident_bytes == GIB


def test_it_writes_a_trace_and_says_three_lines(
    agent: AgentProcess, shims: Shims, tmp_path: Path
) -> None:
    hand_off(shims)
    file = tmp_path / "trace.json"
    done = moiety(agent, "trace", "-o", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 4, "two GPUs, who waited, what moved"
    assert lines[0].startswith("GPU 0, ")
    assert lines[1].endswith("100 % idle")
    assert lines[2].startswith("waited most: ")
    assert lines[3].startswith("moved: ")
    document = load(file.read_text())
    check(document)
    names = {e["name"] for e in document["traceEvents"] if e["ph"] == "X"}
    assert names == {"held", "draining", "evicting", "waiting", "restoring", "idle"}
    assert not list(tmp_path.glob(".trace*"))


def test_stdout_gets_the_trace_alone(agent: AgentProcess, shims: Shims) -> None:
    hand_off(shims)
    done = moiety(agent, "trace", "-o", "-")
    assert json.loads(done.stdout)["traceEvents"]
    assert done.stderr.startswith("GPU 0, ")


def test_a_file_is_replaced_only_when_told_to(agent: AgentProcess, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text("mine")
    done = moiety(agent, "trace", "-o", str(file))
    assert done.returncode == errors.FileExists.exit_code
    assert file.read_text() == "mine"
    assert moiety(agent, "trace", "-o", str(file), "--force").returncode == 0
    assert json.loads(file.read_text())


@pytest.mark.parametrize("place", ["/dev/full", "/proc/nowhere/trace.json", "/tmp"])
def test_what_cannot_be_written_is_said(agent: AgentProcess, place: str) -> None:
    done = moiety(agent, "trace", "-o", place)
    assert done.returncode == errors.FileNotWritable.exit_code
    assert done.stderr.startswith(f"moiety: {place} cannot be written: ")


def test_without_an_agent_it_says_so(agent: AgentProcess, tmp_path: Path) -> None:
    agent.kill()
    agent.wait()
    file = tmp_path / "trace.json"
    done = moiety(agent, "trace", "-o", str(file))
    assert done.returncode == errors.NoAgent.exit_code
    assert "no agent runs in" in done.stderr
    assert not file.exists()


def test_what_is_no_time_is_refused(agent: AgentProcess) -> None:
    assert moiety(agent, "trace", "--since", "soon").returncode == errors.InvalidDuration.exit_code
    assert moiety(agent, "trace", "--follow", "0s").returncode == errors.InvalidDuration.exit_code


@pytest.mark.slow
def test_programs_that_take_turns_are_followed(
    make_node: Callable[[str], Node], programs: Path, kernels: Path, tmp_path: Path
) -> None:
    node = make_node("A100-80:memory=96MiB,link=8GB/s,residue=2MiB")
    node.start_agent("--turn-min", "3ms", "--turn-factor", "0.02", "--idle-min", "2ms")
    command = [programs / "worker", kernels, str(60 << 20), "60", "2", "0"]
    running = [node.run([*command, str(seed)]) for seed in range(2)]
    file = tmp_path / "trace.json"
    events: list[dict[str, Any]] = []
    while not events or any(process.poll() is None for process in running):
        done = node.cli("trace", "--follow", "1s", "-o", str(file))
        assert (done.returncode, done.stderr) == (0, "")
        events += check(load(file.read_text()))
        file.unlink()
    assert_right(*running)
    threads = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert threads == {f"worker (pid {process.pid})" for process in running}
    for name in ("held", "draining", "evicting", "restoring", "waiting", "telling"):
        assert any(e["name"] == name for e in events), name
