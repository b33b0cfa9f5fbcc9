"""Watchers: they are told what changes as far as they may see it, and go on where they were."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from moiety.pool.api import feed
from moiety.pool.api.routes import events
from moiety.pool.control.loop import PoolLoop
from tests.support.served_pool import ask, served, submitted

ANN, BOB = 4321, 4322


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(PoolLoop, "must_serve", lambda *_: None)
    with served(tmp_path, ANN) as (found, _):
        yield found


@dataclass
class Stream:
    """One watcher."""

    answer: http.client.HTTPResponse
    connection: http.client.HTTPConnection

    @classmethod
    def of(cls, address: str, uid: int, after: int | None = None, last: str = "") -> Stream:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        headers = {"X-Test-User": str(uid)} | ({"Last-Event-ID": last} if last else {})
        path = "/v1/events" + ("" if after is None else f"?after={after}")
        connection.request("GET", path, headers=headers)
        return cls(connection.getresponse(), connection)

    def next(self) -> tuple[str, int, dict[str, Any]]:
        """The next event: its kind, its id and its data; what is no event is left out."""
        found: dict[str, str] = {}
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if not line and found:
                return found["event"], int(found["id"]), json.loads(found["data"])
            name, _, value = line.partition(": ")
            if name:
                found[name] = value

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


def test_a_watcher_is_told_what_it_may_see(address: str) -> None:
    own, other = Stream.of(address, ANN), Stream.of(address, BOB)
    assert [each.next()[0] for each in (own, other)] == ["ready", "ready"]
    number = submitted(address, ANN, name="secret", argv=["train", "--key"])
    kind, _, seen = own.next()
    assert (kind, seen["id"], seen["state"], seen["name"]) == ("workload", number, "held", "secret")
    _, _, hidden = other.next()
    assert (hidden["id"], hidden["state"]) == (number, "held")
    assert (hidden["name"], hidden["command"], hidden["stdout"]) == ("", "", "")
    assert ask(address, "POST", f"/v1/workloads/{number}/cancel", uid=ANN)[0] == 200
    assert [each.next()[2]["state"] for each in (own, other)] == ["cancelled", "cancelled"]
    own.close()
    other.close()


@pytest.mark.parametrize("by_header", [True, False])
def test_one_that_was_cut_off_misses_nothing(address: str, by_header: bool) -> None:
    watcher = Stream.of(address, ANN)
    watcher.next()
    first = submitted(address, ANN)
    _, at, _ = watcher.next()
    watcher.close()
    more = [submitted(address, ANN) for _ in range(3)]
    again = Stream.of(address, ANN, None, str(at)) if by_header else Stream.of(address, ANN, at)
    assert [again.next()[2]["id"] for _ in more] == more
    again.close()
    whole = Stream.of(address, ANN, 0)
    assert [whole.next()[2]["id"] for _ in range(4)] == [first, *more]
    whole.close()


def test_one_that_is_too_far_behind_reads_its_list_anew(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "BEHIND_MAX", 2)
    numbers = [submitted(address, ANN) for _ in range(4)]
    late = Stream.of(address, ANN, 1)
    kind, at, _ = late.next()
    assert (kind, at) == ("reload", 4)
    after = submitted(address, ANN)
    assert late.next()[2]["id"] == after > numbers[-1]
    late.close()
    future = Stream.of(address, ANN, 10**9)
    assert future.next()[0] == "reload", "the store was put back to an earlier one"
    future.close()


def test_a_silent_stream_shows_that_it_lives(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.01)
    watcher = Stream.of(address, ANN)
    watcher.next()
    assert watcher.answer.readline() == events.BEAT.splitlines(keepends=True)[0]
    watcher.close()


@pytest.mark.parametrize("last", ["x", "-1", "1" * 30])
def test_an_id_that_is_none_is_refused(address: str, last: str) -> None:
    with closing(Stream.of(address, ANN, last=last)) as refused:
        assert refused.answer.status == 400


def test_there_are_not_more_watchers_than_can_be_told(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "WATCHERS_OF_USER", 1)
    with closing(Stream.of(address, ANN)) as one:
        one.next()
        with closing(Stream.of(address, ANN)) as refused:
            assert refused.answer.status == 409
            assert json.loads(refused.answer.read())["kind"] == "TooManyWatchers"
        with closing(Stream.of(address, BOB)) as other:
            assert other.next()[0] == "ready"
