"""The events on disk: which stay, and in which order they are read."""

from __future__ import annotations

from pathlib import Path

from moiety.agent.core.event_file import EventFile, read
from moiety.agent.core.journal_events import Event

SIZE = 20_000
FLOOD = 3000


def event(number: int, uid: int | None) -> Event:
    return Event(number, 0.0, "normal", "Joined", "x" * 40, uid=uid)


def write(path: Path, *events: Event) -> None:
    file = EventFile(path, SIZE)
    for each in events:
        file.write(each)
    file.close()


def test_a_long_flood_of_one_user_leaves_the_events_of_others(tmp_path: Path) -> None:
    path = tmp_path / "events"
    write(path, event(1, 1000), event(2, None))
    for turn in range(3):
        write(path, *(event(3 + turn * FLOOD + i, 2000) for i in range(FLOOD)))
    last = 3 + 3 * FLOOD
    write(path, event(last, 1000))
    found = list(read(path))
    assert {1, 2, last - 1, last} <= {each.number for each in found}
    assert [each.number for each in found] == sorted(each.number for each in found)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 4 * SIZE


def test_the_files_of_many_users_move_on(tmp_path: Path) -> None:
    path = tmp_path / "events"
    write(path, *(event(i, i % 50) for i in range(1, FLOOD)))
    assert FLOOD - 1 in {each.number for each in read(path)}
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 4 * SIZE


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events"
    write(path, event(1, 0))
    with path.open("a") as file:
        file.write('{"number": 2, "at')
    write(path, event(3, 0))
    assert [each.number for each in read(path)] == [1, 3]
