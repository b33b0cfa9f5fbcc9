"""What an agent writes down of its processes, and what the next one reads of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from moiety.agent.control.client_records import LAG_S, ClientRecords
from moiety.agent.control.records import Survivor, survivors
from moiety.agent.core.client import Client
from moiety.agent.system import processes
from moiety.agent.system.paths import Directory
from moiety.arbiter import events as ev
from moiety.arbiter.settings import Settings
from moiety.wire.layout import AllocFlag
from tests.support.liar import Liar
from tests.support.virtual_agent import World


@pytest.fixture
def here() -> Iterator[World]:
    """One GPU, with an agent."""
    with World(Random(1), Settings(1000, allowance_bytes=0)) as made:
        made.start_agent()
        yield made


class Records:
    """The records of one process, which looks like this one to who reads them."""

    def __init__(self, here: World, folder: Path) -> None:
        self.here = here
        self.directory = Directory(folder)
        self.file = self.directory.workloads / "w" / "clients" / str(os.getpid())
        self.file.parent.mkdir(parents=True)
        started = processes.start_time(os.getpid())
        record = {"id": "w", "uid": 1, "root_pid": os.getpid(), "root_started": started}
        record |= {"program": "p", "argv": [], "cwd": "/"}
        (self.directory.workloads / "w" / "workload.json").write_text(json.dumps(record))
        self.process = Liar(here)
        agent = here.agent
        assert agent is not None
        (self.client,) = agent.clients.by_number.values()
        self.client.started = started or 0
        self.made = ClientRecords(
            agent.runtime,
            agent.clients.by_number,
            agent.arbiter,
            agent.clients.proofs,
            self.path_of,
        )
        agent.executor.on_grown.append(self.made.grown)
        agent.clients.on_changed.append(self.made.write)

    def path_of(self, client: Client) -> str:
        """Where the record is, while its folder is there."""
        del client
        return str(self.file) if self.file.parent.exists() else ""

    def read(self) -> Survivor:
        """What the next agent would find."""
        _, (found,) = survivors(self.directory)
        return found


@pytest.fixture
def records(here: World, tmp_path: Path) -> Records:
    """A process without memory."""
    return Records(here, tmp_path)


def test_the_next_agent_finds_what_a_process_has(here: World, records: Records) -> None:
    records.process.attach()
    assert records.read().held == {0: (0, 0)}
    records.process.alloc(4)
    records.process.alloc(3, AllocFlag.PINNED)
    assert records.read().held == {0: (0, 0)}, "nothing is written on the way of an answer"
    here.until_rest(2 * LAG_S)
    assert records.read().held == {0: (7, 3)}
    assert here.agent is not None
    here.agent.runtime.feed(ev.Free(records.client.number, 0, 3, 3, True))
    here.until_rest(2 * LAG_S)
    assert records.read().held == {0: (4, 0)}


def test_bytes_are_written_in_place(here: World, records: Records) -> None:
    records.process.attach()
    records.process.alloc(1)
    here.until_rest(2 * LAG_S)
    before = records.file.stat()
    records.process.alloc(6)
    here.until_rest(2 * LAG_S)
    after = records.file.stat()
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)
    assert records.read().held == {0: (7, 0)}


def test_a_fenced_process_is_one_to_the_next_agent(here: World, records: Records) -> None:
    records.process.attach()
    records.process.alloc(2)
    records.client.fenced = True
    records.made.write(records.client)
    here.until_rest(2 * LAG_S)
    assert (records.read().fenced, records.read().held) == (True, {0: (2, 0)})


def test_a_folder_that_was_removed_costs_nothing(here: World, records: Records) -> None:
    records.process.attach()
    records.process.alloc(2)
    records.file.unlink()
    here.until_rest(2 * LAG_S)
    (told,) = here.log.warnings
    assert "client_record_not_written" in told
    shutil.rmtree(records.file.parent)
    records.process.alloc(2)
    here.until_rest(2 * LAG_S)
    records.made.remove(records.client)
    assert len(here.log.warnings) == 1


def test_a_process_that_is_gone_has_no_record(here: World, records: Records) -> None:
    records.process.attach()
    records.process.alloc(2)
    records.made.remove(records.client)
    assert not records.file.exists()
    here.until_rest(2 * LAG_S)
    assert not records.file.exists()


def test_a_record_of_an_older_version_names_no_bytes(records: Records) -> None:
    records.process.attach()
    records.file.write_text(records.file.read_text().splitlines()[0] + "\n")
    assert records.read().held == {0: None}
