"""The agent's journal as Events of Kubernetes: on the pods that it is about, each once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from moiety.agent.control import protocol
from moiety.agent.core.journal_events import Event
from moiety.kube import events as notices_module
from moiety.kube.agent_client import AgentClient
from moiety.kube.client import EVENTS, ApiClient
from moiety.kube.events import A_MINUTE, EventRecorder
from moiety.kube.pods import Pod, Pods
from moiety.model.errors import AgentSilent
from moiety.testing.apiserver import ApiServer
from moiety.testing.waiting import Changes


class Journal:
    """Answers as the agent does."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.asked = 0
        self.changes = Changes()

    async def listened_to(self) -> None:
        """Until the first question, which is where to begin, is answered."""
        await self.changes.until(lambda: self.asked >= 2)

    def note(self, reason: str, message: str, severity: str = "warning", **more: Any) -> None:
        number = len(self.events) + 1
        self.events.append(Event(number, 0.0, severity, reason, message, **more))
        self.changes.tell()

    async def ask(self, asked: protocol.Events, answer: Any) -> protocol.Happened:
        del answer
        self.asked += 1
        self.changes.tell()
        if asked.wait_s > 0:
            await self.changes.until(lambda: len(self.events) > asked.after)
        found = [event for event in self.events if event.number > asked.after]
        return protocol.Happened(events=found, read_to=found[-1].number if found else 0)


async def told(server: ApiServer, count: int) -> list[dict[str, Any]]:
    await server.changes.until(lambda: len(server.all(EVENTS)) >= count)
    return sorted(server.all(EVENTS), key=lambda event: event["eventTime"])


def notices(client: ApiClient, journal: Journal, tmp_path: Path) -> EventRecorder:
    pods = Pods(client, "a", lambda _: None)
    pods.by_uid["u-1"] = Pod("team", "train", "u-1", {})
    line = cast("AgentClient", journal)
    return EventRecorder(client, line, pods, "a", tmp_path / "told", structlog.get_logger())


def test_warnings_evictions_and_idleness_are_told_on_the_pod_and_the_rest_is_not(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        journal = Journal()
        of_pod: dict[str, Any] = {
            "labels": {"namespace": "team", "pod": "train"},
            "pid": 7,
            "program": "python",
        }
        async with ApiServer() as server, ApiClient(server.access) as client:
            found = notices(client, journal, tmp_path)
            journal.note("Refused", "before anybody listened", **of_pod)
            task = asyncio.create_task(found.follow())
            await journal.listened_to()
            journal.note("Joined", "", "normal", **of_pod)
            journal.note("Evicted", "1 GiB moved out", "normal", gpu=1, **of_pod)
            journal.note("Killed", "it used a GPU past the agent", pod="u-1", pid=9, program="x")
            journal.note("Refused", "of a program outside of pods", pid=10, program="y")
            journal.note("GpuError", "XID 79: gone", gpu=0)
            events = await told(server, 3)
            task.cancel()
            assert [(e["regarding"]["name"], e["reason"], e["type"]) for e in events] == [
                ("train", "Evicted", "Normal"),
                ("train", "Killed", "Warning"),
                ("a", "GpuError", "Warning"),
            ]
            assert events[0]["note"] == "python (pid 7): 1 GiB moved out (GPU 1)"
            assert events[0]["regarding"]["uid"] == "u-1"
            assert events[0]["metadata"]["namespace"] == "team"

    asyncio.run(story())


def test_the_next_process_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    async def story() -> None:
        journal = Journal()
        async with ApiServer() as server, ApiClient(server.access) as client:
            task = asyncio.create_task(notices(client, journal, tmp_path).follow())
            await journal.listened_to()
            journal.note("Idle", "first", "normal", pod="u-1")
            await told(server, 1)
            # It asks again when it has written down what it told.
            await journal.changes.until((tmp_path / "told").exists)
            task.cancel()
            journal.note("Idle", "second", "normal", pod="u-1")
            again = asyncio.create_task(notices(client, journal, tmp_path).follow())
            events = await told(server, 2)
            again.cancel()
            assert [event["note"] for event in events] == ["first", "second"]

    asyncio.run(story())


def test_one_pod_cannot_fill_the_cluster_with_events(tmp_path: Path) -> None:
    async def story() -> None:
        async with ApiServer() as server, ApiClient(server.access) as client:
            found = notices(client, Journal(), tmp_path)
            pod = Pod("team", "train", "u-1", {})
            for _ in range(2 * A_MINUTE):
                await found.tell(pod, "Refused", "no", warning=True)
            assert len(server.all(EVENTS)) == A_MINUTE
            await found.tell(pod, "Killed", "it used a GPU past the agent", warning=True)
            assert len(server.all(EVENTS)) == A_MINUTE + 1

    asyncio.run(story())


def test_evictions_that_go_on_are_one_event_with_a_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices_module, "COUNT_S", 0.0)

    async def story() -> None:
        journal = Journal()
        async with ApiServer() as server, ApiClient(server.access) as client:
            task = asyncio.create_task(notices(client, journal, tmp_path).follow())
            await journal.listened_to()

            def count() -> int:
                events = server.all(EVENTS)
                return sum(each.get("series", {"count": 1})["count"] for each in events)

            for number in range(1, 6):
                journal.note("Evicted", f"{number} GiB moved out", "normal", pod="u-1", gpu=0)
            await server.changes.until(lambda: count() >= 5)
            (event,) = server.all(EVENTS)
            assert event["note"] == "1 GiB moved out (GPU 0)"
            # One that Kubernetes has forgotten meanwhile is told anew.
            server.remove(EVENTS, event["metadata"]["name"], "team")
            journal.note("Evicted", "6 GiB moved out", "normal", pod="u-1", gpu=0)
            (event,) = await told(server, 1)
            assert event["note"] == "6 GiB moved out (GPU 0)"
            task.cancel()

    asyncio.run(story())


class Restarts(Journal):
    """An agent that is away at one of the questions, and has nothing new before."""

    def __init__(self, away: int) -> None:
        super().__init__()
        self.away = away

    async def ask(self, asked: protocol.Events, answer: Any) -> protocol.Happened:
        if self.asked + 1 == self.away:
            self.asked += 1
            self.changes.tell()
            raise AgentSilent("it hung up")
        if self.asked + 1 < self.away:
            asked = protocol.Events(after=asked.after)
        return await super().ask(asked, answer)


@pytest.mark.parametrize("away", [1, 2, 3, 4, 5])
def test_an_agent_that_is_away_at_any_question_is_listened_to_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: int
) -> None:
    monkeypatch.setattr(notices_module, "AGAIN_S", 0.0)

    async def story() -> None:
        journal = Restarts(away)
        async with ApiServer() as server, ApiClient(server.access) as client:
            task = asyncio.create_task(notices(client, journal, tmp_path).follow())
            await journal.changes.until(lambda: journal.asked > away or task.done())
            journal.note("Idle", "after that", "normal", pod="u-1")
            assert not task.done(), task.result()
            (event,) = await told(server, 1)
            task.cancel()
            assert event["note"] == "after that"

    asyncio.run(asyncio.wait_for(story(), 20))


def test_a_note_has_as_many_bytes_as_kubernetes_takes(tmp_path: Path) -> None:
    async def story() -> None:
        async with ApiServer() as server, ApiClient(server.access) as client:
            found = notices(client, Journal(), tmp_path)
            pod = Pod("team", "train", "u-1", {})
            await found.tell(pod, "ResizeRefused", "é" * 2000, warning=True)
            (event,) = server.all(EVENTS)
            assert event["note"] == "é" * 500

    asyncio.run(story())
