"""The cards of a workload: kept for it, and final once its program has looked at them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from structlog.testing import CapturingLogger

from moiety.agent.control import running_workload
from moiety.agent.control.records import Record
from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.recovery import SETTLE_S
from moiety.agent.system import processes
from moiety.devices.interface import Device, uuid_bytes

UUIDS = [f"GPU-{at:08x}-0000-4000-8000-000000000000" for at in range(3)]


class Agent:
    """Three GPUs, and one workload for which the last two are kept."""

    def __init__(self, folder: Path, *chosen: str) -> None:
        gpus = {
            at: SimpleNamespace(device=Device(at, uuid, "A100", 1), is_drained=False)
            for at, uuid in enumerate(UUIDS)
        }
        record = Record("w", 1, 1, 1, "p", [], "/", chosen=list(chosen))
        socket: Any = None
        self.workload = RunningWorkload(record, str(folder), socket, -1)
        self.client: Any = SimpleNamespace(may_use=frozenset(), gpus=set())
        self.workload.clients.add(1)
        self.it: Any = SimpleNamespace(
            by_id={"w": self.workload},
            _sessions=SimpleNamespace(gpus=gpus),
            _clients={1: self.client},
            _runtime=SimpleNamespace(log=CapturingLogger()),
            divide=lambda _: None,
            _tell=lambda _: None,
            choose_again=lambda workload: workload.record,
        )


def test_the_choice_is_final_once_the_program_has_looked(tmp_path: Path) -> None:
    agent = Agent(tmp_path, UUIDS[2], UUIDS[1])
    assert agent.workload.record.gpus == []
    assert Workloads.settle(agent.it, "w") == (UUIDS[1], UUIDS[2])
    assert Workloads.settle(agent.it, "w") == (UUIDS[1], UUIDS[2])
    record = agent.workload.record
    assert (sorted(record.gpus), record.chosen) == ([UUIDS[1], UUIDS[2]], [])
    assert agent.client.may_use == {uuid_bytes(UUIDS[1]), uuid_bytes(UUIDS[2])}


def test_a_full_disk_shows_a_program_no_other_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(running_workload, "write_whole", full)
    agent = Agent(tmp_path, UUIDS[2])
    assert Workloads.settle(agent.it, "w") == (UUIDS[2],)
    assert agent.client.may_use == {uuid_bytes(UUIDS[2])}
    (said,) = agent.it._runtime.log.calls
    assert said.args == ("record_not_written",)


def test_a_workload_without_cards_of_its_own_has_all(tmp_path: Path) -> None:
    assert Workloads.settle(Agent(tmp_path).it, "w") == tuple(UUIDS)
    assert Workloads.settle(Agent(tmp_path).it, "gone") == tuple(UUIDS)


def test_the_choice_follows_a_program_that_takes_another_card(tmp_path: Path) -> None:
    agent = Agent(tmp_path, UUIDS[1])
    agent.client.gpus = {1}
    Workloads._follow(agent.it, agent.workload, agent.client)
    assert agent.workload.cards == [UUIDS[1]]
    agent.client.gpus = {0}
    Workloads._follow(agent.it, agent.workload, agent.client)
    assert agent.workload.cards == [UUIDS[0]]
    assert (tmp_path / "workload.json").exists()


def test_an_instance_of_a_gpu_is_named_as_it_is(tmp_path: Path) -> None:
    part = "MIG-00000000-0000-0000-0000-000000000009"
    agent = Agent(tmp_path)
    agent.workload.record = msgspec.structs.replace(agent.workload.record, gpus=[part])
    assert Workloads.settle(agent.it, "w") == (part,)


def test_a_share_for_containers_gives_its_next_process_no_drained_gpu(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    workload, gpus = agent.workload, agent.it._sessions.gpus
    assert workload.open_to(gpus) == ()
    gpus[1].is_drained = True
    assert workload.open_to(gpus) == (), "a program that was run has all"
    workload.record = msgspec.structs.replace(workload.record, container="half")
    assert workload.open_to(gpus) == (UUIDS[0], UUIDS[2])
    workload.record = msgspec.structs.replace(workload.record, gpus=[UUIDS[1]])
    assert workload.open_to(gpus) == (UUIDS[1],), "it has no other"


def test_a_program_that_has_not_looked_at_its_gpus_may_use_no_drained_one(tmp_path: Path) -> None:
    agent = Agent(tmp_path, UUIDS[0])
    workload, gpus = agent.workload, agent.it._sessions.gpus
    workload.record = msgspec.structs.replace(workload.record, gpus=[])
    assert workload.open_to(gpus) == ()
    gpus[1].is_drained = True
    assert workload.open_to(gpus) == (UUIDS[0], UUIDS[2])
    workload.record = msgspec.structs.replace(workload.record, gpus=UUIDS[1:])
    assert workload.open_to(gpus) == (UUIDS[2],), "of those of its user"


def test_the_choice_is_made_again_when_the_program_looks(tmp_path: Path) -> None:
    agent = Agent(tmp_path, UUIDS[1])
    better = msgspec.structs.replace(agent.workload.record, chosen=[UUIDS[2]])
    agent.it.choose_again = lambda _: better
    assert Workloads.settle(agent.it, "w") == (UUIDS[2],)
    agent.it.choose_again = None  # from now on it is final
    assert Workloads.settle(agent.it, "w") == (UUIDS[2],)


def ending(folder: Path, pid: int, *, is_awaited: bool) -> Any:
    """The agent of a workload without a process, in whose folder this one is recorded."""
    agent = Agent(folder)
    agent.workload.clients.clear()
    (folder / "clients").mkdir()
    (folder / "clients" / str(pid)).write_text(f"{processes.start_time(pid) or 1} 0\n")
    it = agent.it
    it.later, it.removed = [], []
    it._loop = SimpleNamespace(call_later=lambda *call: it.later.append(call))
    it._sessions.clients = SimpleNamespace(is_awaited=lambda _: is_awaited)
    it._remove_if_over = None
    it.remove = it.removed.append
    it.workload = agent.workload
    return it


def test_a_workload_is_kept_for_a_process_that_may_come_back_from_the_last_agent(
    tmp_path: Path,
) -> None:
    it = ending(tmp_path, os.getpid(), is_awaited=True)
    Workloads._remove_if_over(it, it.workload)
    assert (it.removed, it.later) == ([], [(SETTLE_S, None, it.workload)])
    assert it.workload.is_kept


def test_a_workload_is_forgotten_whose_process_does_something_else_now(tmp_path: Path) -> None:
    it = ending(tmp_path, os.getpid(), is_awaited=False)
    Workloads._remove_if_over(it, it.workload)
    assert it.removed == [it.workload]


def test_a_workload_is_forgotten_whose_processes_are_dead(tmp_path: Path) -> None:
    it = ending(tmp_path, 1 << 22, is_awaited=True)  # beyond the largest pid
    assert not it.workload.is_kept
    Workloads._remove_if_over(it, it.workload)
    assert it.removed == [it.workload]
