"""A recording in a file has no names, and replays to the same instructions."""

from __future__ import annotations

import dataclasses
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from moiety.agent.control.protocol import EventRecording, RecordingPage
from moiety.agent.core.event_recorder import StepRecorder
from moiety.agent.core.step_codec import EVENTS, INSTRUCTIONS
from moiety.arbiter import events as ev
from moiety.arbiter.checkpoint import take
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.cli.doctor.redact import Redactor
from moiety.cli.main import moiety
from moiety.model.errors import AgentSilent, RecordingInvalid, RecordingMissing
from moiety.model.errors.base import ExitCode
from moiety.model.share import Share
from moiety.trace.event_privacy import OWN_WORDS, TEXTS, Disguise
from moiety.trace.event_recording import Fetched, replay_file, write
from tests.unit.cli.commands import outcome

GIB = 1 << 30
SECRETS = ("diffusion", "hush", "alice", "sesame")


def _hello(number: int, name: str) -> ev.Hello:
    return ev.Hello(number, name=name, uid=1000, owner="namespace alice-hush", workload="hush-run")


class Agent:
    """What `moiety agent record` talks to."""

    def __init__(self, segment_bytes: int = 64 << 10) -> None:
        self.arbiter = Arbiter([GpuSpec(0, 10 * GIB, 9 * GIB)], Settings(100 * GIB))
        self.now_s = 100.0
        self.feed_early()
        self.recorder = StepRecorder(lambda: take(self.arbiter), segment_bytes)

    def feed_early(self) -> None:
        """What is in the starting point only."""
        list(self.arbiter.handle(1.0, _hello(1, "diffusion (pid 11)")))
        list(self.arbiter.handle(1.0, ev.Attach(1, 0, 1, GIB, 9 * GIB)))
        list(self.arbiter.handle(1.0, ev.AllocRequest(1, 0, 2, 5 * GIB)))
        list(self.arbiter.handle(1.0, ev.GangJoined(1, "u1000.hush")))

    def feed(self, *events: ev.Event) -> None:
        for event in events:
            self.now_s += 0.5
            self.recorder.begin(self.now_s, event)
            for each in self.arbiter.handle(self.now_s, event):
                self.recorder.told(each)
            self.recorder.end()

    def day(self) -> None:
        self.feed(
            ev.Pinned(1, "cuIpcGetMemHandle"),
            _hello(2, "sesame.py (pid 12)"),
            ev.Attach(2, 0, 1, GIB, 9 * GIB),
            ev.UserLimitsSet(
                {1000: (6 * GIB, "users.alice memory_limit 6GiB in /home/alice/x")},
                {1001: (0.5, "users.alice-too memory 50% in /home/alice/x")},
            ),
            ev.AllocRequest(2, 0, 3, 2 * GIB),
            ev.AllocRequest(2, 0, 4, 6 * GIB),
            ev.UserLimitsSet({}),
            ev.GuaranteesSet({"namespace alice-hush": 0.5}, {"hush-ers": (0.2, ("user 1000",))}),
            ev.AllocRequest(2, 0, 5, 8 * GIB),
            ev.LeaseRequest(2),
            ev.ShareSet(2, Share(gpu=0.5)),
            ev.Left(1),
            ev.LeaseRequest(2),
        )

    def ask(self, request: EventRecording) -> RecordingPage:
        page = self.recorder.page(request.segment, request.offset)
        return RecordingPage(pid=1, **dataclasses.asdict(page))


@pytest.fixture
def agent() -> Agent:
    made = Agent()
    made.day()
    return made


def redactor() -> Redactor:
    return Redactor({}, home="/home/alice", people=["alice"], host="box")


def written(agent: Agent, path: Path) -> Path:
    fetched = Fetched()
    fetched.fetch(agent.ask)
    with path.open("wb") as sink:
        write(sink, fetched, redactor().text)
    return path


def changed(path: Path, change: Callable[[list[str]], None]) -> Path:
    lines = path.read_text().splitlines()
    change(lines)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_file_has_no_names_and_replays(agent: Agent, tmp_path: Path) -> None:
    path = written(agent, tmp_path / "a")
    text = path.read_text()
    assert not [word for word in SECRETS if word in text]
    assert "program 1 (pid 11)" in text
    assert "gang 1" in text
    refusals = [line for line in text.splitlines() if '"Refused"' in line]
    assert any("<user>" in line for line in refusals), "a rule's sentence is in a refusal"
    found = replay_file(path)
    assert found.difference is None
    assert found.events == 13


def test_another_process_decides_the_same(agent: Agent, tmp_path: Path) -> None:
    """Nothing depends on a process' addresses and hashes."""
    path = written(agent, tmp_path / "a")
    command = [sys.executable, "-m", "moiety", "agent", "replay", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "13 events" in done.stdout
    assert "the same" in done.stdout


def test_the_first_difference_is_named(agent: Agent, tmp_path: Path) -> None:
    path = written(agent, tmp_path / "a")

    def change(lines: list[str]) -> None:
        at = next(i for i, line in enumerate(lines) if '"Refused"' in line)
        step = json.loads(lines[at])
        step["instructions"][0]["serial"] = 77
        lines[at] = json.dumps(step)

    found = replay_file(changed(path, change)).difference
    assert found is not None
    assert found.expected is not None
    assert found.got is not None
    assert "serial=77" in str(found.expected)
    result = CliRunner().invoke(moiety, ["agent", "replay", str(path)])
    assert result.exit_code == 1
    assert f"event {found.number} at " in result.output
    assert "AllocRequest" in result.output
    assert "serial=77" in result.output


def test_a_sentence_that_differs_is_a_difference(agent: Agent, tmp_path: Path) -> None:
    path = written(agent, tmp_path / "a")

    def change(lines: list[str]) -> None:
        at = next(i for i, line in enumerate(lines) if '"Refused"' in line)
        lines[at] = lines[at].replace("GiB", "TiB")

    assert replay_file(changed(path, change)).difference is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines.clear(),
        lambda lines: lines.__setitem__(slice(1, None), []),
        lambda lines: lines.__setitem__(0, "hello"),
        lambda lines: lines.__setitem__(0, '{"format": 99, "moiety": "9"}'),
        lambda lines: lines.__setitem__(1, '{"classes": [], "tree": 7}'),
        lambda lines: lines.__setitem__(1, "[" * 100_000),
        lambda lines: lines.__setitem__(3, '{"at_s": 1, "event": {"is": "Nothing"}}'),
        lambda lines: lines.__setitem__(3, '{"at_s": 1, "event": {"is": "Left", "tenant": "x"}}'),
        lambda lines: lines.__setitem__(3, lines[3][:-5]),
    ],
)
def test_a_bad_file_is_refused(
    agent: Agent, tmp_path: Path, change: Callable[[list[str]], None]
) -> None:
    path = changed(written(agent, tmp_path / "a"), change)
    with pytest.raises(RecordingInvalid):
        replay_file(path)


def test_a_recording_goes_on_and_tells_that_the_agent_ended(agent: Agent) -> None:
    asked = 0

    def ask(request: EventRecording) -> RecordingPage:
        nonlocal asked
        asked += 1
        if asked > 3:
            raise AgentSilent(problem="it ended")
        return agent.ask(request)

    fetched = Fetched()
    fetched.follow(ask, 60.0, clock=lambda: 0.0, sleep=lambda _: agent.feed(ev.Tick()))
    assert fetched.agent_ended
    assert len(list(fetched.steps())) == 15


def test_what_was_forgotten_meanwhile_is_begun_anew() -> None:
    agent = Agent(16 << 10)
    fetched = Fetched()
    fetched.fetch(agent.ask)
    for _ in range(400):
        agent.day()
        agent.feed_early()
    fetched.fetch(agent.ask)
    sink = io.BytesIO()
    write(sink, fetched, str)
    assert 0 < len(list(fetched.steps())) < 1000


def test_names_in_sentences_get_the_same_numbers(agent: Agent) -> None:
    fetched = Fetched()
    fetched.fetch(agent.ask)
    disguise = Disguise(fetched.checkpoint, fetched.steps(), redactor().text)
    told = disguise.text(
        "u1000.hush and sesame.py (pid 12), not sesame.pyc (pid 12), of user alice"
    )
    assert told == "gang 1 and program 2 (pid 12), not sesame.pyc (pid 12), of user <user>"
    assert disguise.text("diffusion (pid 11)") == "program 1 (pid 11)"


def test_no_text_is_forgotten() -> None:
    """Each field with a text is either hidden or one that moiety makes."""
    special = {
        (ev.UserLimitsSet, "limits"),
        (ev.UserLimitsSet, "parts"),
        (ev.GuaranteesSet, "parts"),
        (ev.GuaranteesSet, "groups"),
    }
    known = {(cls, name) for cls, fields in TEXTS.items() for name in fields} | OWN_WORDS
    for cls in EVENTS + INSTRUCTIONS:
        for field in msgspec.structs.fields(cls):
            if "str" in str(field.type):
                assert (cls, field.name) in known | special


def test_a_page_can_be_sent() -> None:
    agent = Agent()
    page = agent.ask(EventRecording())
    assert msgspec.json.decode(msgspec.json.encode(page), type=RecordingPage) == page


def test_a_file_that_is_not_there_is_no_bad_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = outcome(["agent", "replay", str(tmp_path / "none")], capsys)
    assert code == RecordingMissing.exit_code == ExitCode.NO_INPUT
    assert "moiety agent record" in said
