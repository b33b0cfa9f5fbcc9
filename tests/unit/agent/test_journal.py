"""Events: kept, numbered over agents, told again after a kill, bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from moiety.agent.core.client import Client
from moiety.agent.core.event_file import read
from moiety.agent.core.journal import LIVES_ALONE, Journal
from moiety.agent.core.journal_events import REASONS
from moiety.testing.clocks import FakeClock


def client(number: int = 7) -> Client:
    plain: Any = SimpleNamespace(
        number=number, pid=42, program="train", workload="w", uid=0, labels={}
    )
    return cast("Client", plain)


def test_an_event_says_who_what_and_where() -> None:
    journal = Journal(wall_s=lambda: 12.5)
    journal.note("Refused", "too much", client(), 3)
    (event,) = journal.after(0, 10)
    assert (event.number, event.at_s, event.severity) == (1, 12.5, "warning")
    assert (event.tenant, event.pid, event.program, event.gpu) == (7, 42, "train", 3)
    assert journal.counts["Refused"] == 1
    assert sum(journal.counts.values()) == 1


def test_nobodys_words_control_a_terminal() -> None:
    journal = Journal()
    journal.note("Spared", "a\x1b]0;b", program="x\x1b[2J")
    (event,) = journal.after(0, 10)
    assert (event.message, event.program) == ("a?]0;b", "x?[2J")


def test_only_what_is_newer_is_told_and_a_page_at_a_time() -> None:
    journal = Journal(kept=10)
    for _ in range(25):
        journal.note("Joined", "", client())
    assert [e.number for e in journal.after(0, 100)] == list(range(16, 26))
    assert [e.number for e in journal.after(18, 3)] == [19, 20, 21]
    assert journal.after(25, 3) == []
    assert journal.after(1000, 3) == []


def test_another_agent_goes_on_where_the_last_one_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    journal = Journal(path)
    journal.note("Joined", "first", client())
    journal.note("Left", "it ended", client())
    with path.open("a") as file:
        file.write('{"number": 3, "at_s"')  # it was killed while it wrote
    after = Journal(path)
    after.note("AgentStarted", "again")
    assert [(e.number, e.reason) for e in after.after(0, 10)] == [
        (1, "Joined"),
        (2, "Left"),
        (3, "AgentStarted"),
    ]
    after.close()
    journal.close()


def test_what_follows_a_line_that_was_cut_off_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"number": 3, "at_s"')
    journal = Journal(path)
    journal.note("AgentStarted", "again")
    journal.close()
    assert [e.reason for e in read(path)] == ["AgentStarted"]


def test_the_files_stay_small(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    journal = Journal(path)
    for _ in range(6000):
        journal.note("Refused", "x" * 1000, client())
    journal.close()
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) <= 4
    assert max(sizes) <= 1 << 20
    assert list(read(path))[-1].number == 6000


def test_evictions_are_told_together_and_none_is_forgotten() -> None:
    now_s = 0.0
    journal = Journal(wall_s=lambda: now_s)
    who = client()
    for _ in range(100):
        journal.evicted(who, 0, 1 << 20)
        now_s += 0.5
    journal.forget(who)
    told = journal.after(0, 1000)
    assert len(told) == 6
    assert told[0].message == "1 MiB moved out to the host"
    assert told[1].message == "20 MiB moved out to the host in 20 moves"
    assert told[-1].message == "19 MiB moved out to the host in 19 moves"
    other = client(8)
    journal.forget(other)
    assert len(journal.after(0, 1000)) == 6


def test_the_first_event_of_a_move_tells_all_of_it() -> None:
    journal = Journal(wall_s=lambda: 5.0)
    who = client()
    for _ in range(3):
        journal.evicted(who, 0, 32 << 20, is_over=False)
    assert journal.after(0, 10) == []
    journal.evicted(who, 0, 4 << 20)
    journal.evicted(who, 1, 0, is_over=True)
    assert [e.message for e in journal.after(0, 10)] == ["100 MiB moved out to the host"]


def test_a_move_that_never_ends_is_told_with_its_process() -> None:
    journal = Journal(wall_s=lambda: 5.0)
    who = client()
    journal.evicted(who, 0, 1 << 20)
    journal.evicted(who, 0, 2 << 20, is_over=False)
    journal.forget(who)
    told = [e.message for e in journal.after(0, 10)]
    assert told == ["1 MiB moved out to the host", "2 MiB moved out to the host"]
    assert not journal._moved


def test_what_was_merged_is_told_when_it_is_due_and_wakes_whoever_waits() -> None:
    async def waits() -> list[str]:
        clock = FakeClock(0.1)
        journal = Journal()
        journal.timed_by(clock)
        for n in range(10):
            journal.often(7, "Refused", f"{n}", client(), 0)
        journal.evicted(client(), 0, 1 << 20)
        clock.advance(4.0)
        journal.evicted(client(), 0, 2 << 20)
        journal.evicted(client(), 0, 3 << 20)
        told = []
        for _ in range(2):
            waiting = asyncio.ensure_future(journal.changed(600.0))
            await asyncio.sleep(0)  # noqa: TID251 (no time: the task begins to wait)
            before = journal.next
            while journal.next == before:
                clock.advance(1.0)
            await waiting
            told.append(f"{clock.time():.1f} {journal.after(0, 100)[-1].message}")
            if len(told) == 1:  # both are due at the same time: this is the later of them
                assert journal.after(0, 100)[-2].message == "9 (7 times within 10 s)"
                journal.evicted(client(), 0, 1 << 20)
        clock.advance(100.0)
        assert journal._timer is None
        return told

    assert asyncio.run(waits()) == [
        "10.1 5 MiB moved out to the host in 2 moves",
        "20.1 1 MiB moved out to the host",
    ]


def test_whoever_waits_is_woken_by_the_next_event() -> None:
    async def waits() -> list[str]:
        journal = Journal()
        asyncio.get_running_loop().call_later(0.01, journal.note, "Joined", "", client())
        await journal.changed(30.0)
        woken = [e.reason for e in journal.after(0, 10)]
        await journal.changed(0.001)  # nothing comes: it returns all the same
        journal.note("Left", "", client())
        return woken

    assert asyncio.run(waits()) == ["Joined"]


def test_every_reason_says_what_it_means_and_every_warning_what_to_do() -> None:
    for reason in REASONS.values():
        assert reason.severity in ("normal", "warning")
        assert len(reason.meaning) > 10
        assert reason.severity == "normal" or len(reason.advice) > 10


def test_one_process_does_not_push_out_what_others_did() -> None:
    now = [100.0]
    journal = Journal(wall_s=lambda: now[0], kept=10)
    journal.note("Joined", "", client(1))
    alone = [journal.often(7, "Refused", f"{n} bytes", client(), 0) for n in range(1000)]
    assert alone == [True] * 3 + [False] * 997
    assert [e.reason for e in journal.after(0, 100)] == ["Joined"] + ["Refused"] * 3
    now[0] += 10
    *_, last = journal.after(0, 100)
    assert (last.number, last.message) == (5, "999 bytes (997 times within 10 s)")
    assert (last.tenant, last.gpu) == (7, 0)
    assert journal.counts["Refused"] == 1000
    assert journal.often(7, "Refused", "again", client(), 0), "some time later it is news"


def test_what_was_merged_is_told_before_its_process_is_gone_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    journal = Journal(path, wall_s=lambda: 5.0)
    for n in range(4):
        journal.often(7, "Refused", f"{n}", client())
        journal.often("w", "ShareChanged", f"{n}" * 600)
    journal.forget(client())
    assert [e.message for e in journal.ring if e.reason == "Refused"] == ["0", "1", "2", "3"]
    journal.often("w", "ShareChanged", "x" * 600)
    journal.close()
    last = list(read(path))[-1]
    assert last.message.endswith("xx (2 times within 10 s)")
    assert len(last.message) == 500


def test_what_is_known_of_repeats_is_bounded_and_none_is_lost() -> None:
    journal = Journal(wall_s=lambda: 5.0)
    for n in range(2000):
        for _ in range(4):
            journal.often(n, "Refused", "no", client(n))
    assert len(journal._repeats) == 256
    journal.close()
    assert journal.next - 1 == 8000


def test_a_pod_that_is_no_clients_is_named_if_its_name_is_known() -> None:
    journal = Journal(wall_s=lambda: 5.0)
    journal.pods = {"u-1": "team/train"}
    journal.note("Unregistered", "it uses a GPU", pid=9, program="x", pod="u-1")
    journal.note("Unregistered", "it uses a GPU", pid=10, program="y", pod="u-2")
    for _ in range(5):
        journal.often("share", "Refused", "it is another pod's", pod="u-1")
    journal.close()
    named, unknown, *refused = journal.after(0, 100)
    assert (named.pod, named.labels) == ("u-1", {"namespace": "team", "pod": "train"})
    assert (unknown.pod, unknown.labels) == ("u-2", {})
    assert {each.pod for each in refused} == {"u-1"}
    assert refused[-1].message == "it is another pod's (2 times within 10 s)"


def test_thousands_of_short_lives_of_one_user_are_few_events_and_wipe_no_others() -> None:
    journal = Journal(wall_s=lambda: 5.0)
    journal.note("Refused", "alice's", uid=1)
    for number in range(8000):
        short = client(number)
        journal.lives("Joined", "", short)
        journal.lives("ConnectionLost", "", short)
        journal.lives("Left", "it ended", short)
    journal.close()
    events = journal.after(0, 10_000)
    assert events[0].message == "alice's"
    assert len(events) == 1 + 3 * (LIVES_ALONE + 1)
    assert journal.counts["Left"] == 8000
    assert "7936 times" in events[-1].message
