"""The book of what pods have: whole or as it was, and never of a version that is not known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moiety.devices.gpu_models import Card
from moiety.kube.checkpoint import (
    CLAIM,
    UNITS,
    Assignment,
    AssignmentStore,
    CheckpointUnreadable,
    Slot,
)
from moiety.kube.device_accounting import DeviceAccounting, ModeTaken, ServiceMode
from moiety.kube.resource_slices import NodeGpu
from moiety.model.errors import FileNotWritable
from moiety.model.share import Priority, Share


def assignment(name: str, percent: float, kind: str = CLAIM, memory_bytes: int = 0) -> Assignment:
    slot = Slot("gpu-0", "GPU-0", percent, memory_bytes)
    share = Share(gpu=percent / 100, priority=Priority.HIGH)
    return Assignment(name, kind, f"key-{name}", [slot], share, pods=["u"], labels={"pod": "p"})


def ledger(path: Path, mode: ServiceMode = ServiceMode.BOTH) -> DeviceAccounting:
    found = DeviceAccounting(AssignmentStore(path), mode)
    found.gpus = {"gpu-0": NodeGpu(Card(0, "GPU-0", "T4", 16 << 30), 10 << 30)}
    return found


def test_what_was_written_is_read_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "state" / "given.json"
    first = AssignmentStore(path)
    assert first.assignments == {}
    assert not first.rebooted, "there was nothing before"
    first.put(assignment("a", 30), assignment("b", 40))
    first.drop("b", "none")
    again = AssignmentStore(path)
    assert again.assignments == {"a": assignment("a", 30)}
    assert not again.rebooted
    assert again.of_claim("key-a") == [assignment("a", 30)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["given.json"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "makes no sense"),
        ('{"version": 1, "boot": "", "given": [{"na', "makes no sense"),
        ('{"version": 2, "everything": "else"}', "it is of version 2, this moiety knows 1"),
        ('{"version": 2, "boot": "", "given": []}', "it is of version 2, this moiety knows 1"),
    ],
)
def test_a_damaged_book_is_refused_and_left_as_it_is(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "given.json"
    path.write_text(text)
    with pytest.raises(CheckpointUnreadable, match=words) as no:
        AssignmentStore(path)
    assert no.value.hint
    assert path.read_text() == text


def test_what_cannot_be_written_was_not_given(tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    book = AssignmentStore(path)
    book.put(assignment("a", 30))
    before = path.read_text()
    (tmp_path / ".given.json.new").mkdir()  # nothing can be written there
    with pytest.raises(FileNotWritable):
        book.put(assignment("b", 40))
    assert set(book.assignments) == {"a"}
    assert path.read_text() == before


def test_a_machine_that_was_restarted_is_known_by_its_boot(tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    AssignmentStore(path).put(assignment("a", 30))
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "boot": "another"}))
    assert AssignmentStore(path).rebooted


def test_nothing_is_given_twice_by_whichever_way(tmp_path: Path) -> None:
    book = ledger(tmp_path / "given.json")
    book.checkpoint.put(assignment("a", 60, memory_bytes=6 << 30), assignment("b", 20, UNITS))
    assert "80 % of it are given already, by claims and units" in book.check([assignment("c", 21)])
    assert book.check([assignment("c", 20)]) == ""
    assert "6 GiB of 10 GiB" in book.check([assignment("c", 10, memory_bytes=5 << 30)])
    assert book.check([assignment("a", 80, memory_bytes=10 << 30)]) == "", "it is instead of itself"
    assert book.check([assignment("c", 15), assignment("d", 15)])
    strange = Slot("gpu-0", "GPU-9", 1)
    assert "is not a GPU of this node's agent" in book.refuse([strange])


def test_a_mode_is_left_only_when_nobody_needs_it(tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    AssignmentStore(path).put(assignment("a", 30), assignment("b", 20, UNITS))
    with pytest.raises(ModeTaken, match="does not serve units"):
        DeviceAccounting(AssignmentStore(path), ServiceMode.DRA)
    with pytest.raises(ModeTaken, match="does not serve claims"):
        DeviceAccounting(AssignmentStore(path), ServiceMode.PLUGIN)
    assert not DeviceAccounting(AssignmentStore(path), ServiceMode.BOTH).is_empty
    AssignmentStore(path).drop("b")
    assert DeviceAccounting(AssignmentStore(path), ServiceMode.DRA).booked("GPU-0").percent == 30


def test_a_share_that_grows_counts_before_it_is_given_and_only_by_what_it_grew(
    tmp_path: Path,
) -> None:
    book = ledger(tmp_path / "given.json")

    def grown(percent: float, memory_bytes: int) -> Assignment:
        slot = Slot("gpu-0", "GPU-0", percent, memory_bytes, "", "", 30, 1 << 30)
        return Assignment("a", CLAIM, "key-a", [slot], Share(gpu=percent / 100))

    book.checkpoint.put(grown(20, 0), assignment("old", 10))
    assert (book.booked("GPU-0").grown_percent, book.booked("GPU-0").grown_bytes) == (0, 0)
    book.growing["a"] = grown(60, 3 << 30)
    found = book.booked("GPU-0")
    assert (found.percent, found.grown_percent, found.grown_bytes) == (70, 30, 2 << 30)
    assert "70 % of it are given already" in book.check([assignment("b", 40)])
    assert book.check([grown(90, 0)]) == ""
    del book.growing["a"]
    assert book.booked("GPU-0").percent == 30
