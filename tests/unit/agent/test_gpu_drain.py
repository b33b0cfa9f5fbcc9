"""Drained GPUs: nothing new begins there, over restarts of the agent too; what runs goes on."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from moiety.agent.control import protocol, rights, saved_settings
from moiety.agent.control.answers import GpuList
from moiety.agent.control.commands import ControlCommands
from moiety.agent.control.creation import Creation
from moiety.agent.control.gpu_drain import GpuDrain
from moiety.agent.control.options import Options
from moiety.agent.control.saved_settings import SavedSettings
from moiety.agent.core.journal import Journal
from moiety.agent.core.orphans import Known, Orphan
from moiety.agent.system.paths import Directory
from moiety.agent.system.processes import Peer
from moiety.config.values import Visible
from moiety.devices.interface import Usage
from moiety.model.cards import CardRequest
from moiety.model.errors import BadArgument, GpusDrained, NotAllowed
from moiety.model.share import Share
from tests.unit.agent.test_cards import GIB, Machine


def drain_of(machine: Machine) -> GpuDrain:
    return GpuDrain(machine.gpus, machine.clients, machine.cards, Journal())


def test_a_drained_gpu_is_chosen_for_nothing_until_it_is_resumed() -> None:
    machine = Machine("A100", "A100", "A100")
    drain = drain_of(machine)
    drain.set(drain.find(["1", "GPU-2"]), drained=True)
    assert [machine.run() for _ in range(3)] == [[0]] * 3
    with pytest.raises(GpusDrained, match="GPUs 1, 2 are drained") as refused:
        machine.run(request=CardRequest(2))
    assert "moiety gpu resume 1 2" in refused.value.hint
    with pytest.raises(GpusDrained, match="GPU 1 is drained"):
        machine.run(request=CardRequest(named=("1",)))
    drain.set(["GPU-1"], drained=False)
    assert machine.run() == [1]
    said = [(event.reason, event.gpu) for event in drain.journal.ring]
    assert said == [("GpuDrained", 1), ("GpuDrained", 2), ("GpuResumed", 1)]


def test_draining_a_drained_gpu_again_is_no_event() -> None:
    machine = Machine("A100", "A100")
    drain = drain_of(machine)
    drain.set(["GPU-1", "GPU-of-before"], drained=True, is_told=False)
    drain.set(["GPU-1"], drained=True)
    assert not list(drain.journal.ring)
    with pytest.raises(BadArgument):
        drain.find(["7"])


def test_a_share_for_containers_gets_no_drained_gpu() -> None:
    machine = Machine("A100", "A100")
    cards, gpus = machine.cards, machine.gpus
    gpus[1].is_drained = True
    asked = protocol.CreateContainer("half")
    assert cards.within(asked, None) is asked
    assert cards.within(asked, [0, 1]).gpus == ["GPU-0"]
    named = protocol.CreateContainer("half", gpus=["GPU-1"])
    for only in (None, [0, 1]):
        with pytest.raises(GpusDrained):
            cards.within(named, only)
    record = SimpleNamespace(gpus=["GPU-1"])
    machine.workloads.by_id["half"] = SimpleNamespace(record=record)
    assert cards.within(named, None) is named  # the share changes, and stays where it is
    gpus[0].is_drained = True
    with pytest.raises(GpusDrained):
        cards.within(protocol.CreateContainer("other"), None)


def test_a_workload_without_a_choice_is_kept_off_drained_gpus() -> None:
    machine = Machine("A100", "A100", "A100")
    assert machine.cards.open_to(None) == ()
    assert machine.cards.open_to([1, 2]) == [1, 2]
    machine.gpus[1].is_drained = True
    assert machine.cards.open_to(None) == [0, 2]
    assert machine.cards.open_to([1, 2]) == [2]


def test_a_machine_with_one_gpu_starts_nothing_while_that_is_drained() -> None:
    machine = Machine("A100")
    runtime: Any = SimpleNamespace()
    parts: Any = machine.workloads

    async def measured() -> dict[int, Usage]:
        return {}

    creation = Creation(runtime, parts, runtime, machine.cards, measured)
    asked = protocol.CreateWorkload("a.out", [], "/", cards=CardRequest())
    machine.gpus[0].is_drained = True
    with pytest.raises(GpusDrained, match="GPU 0 is drained"):
        asyncio.run(creation.create(asked, Peer(1, 1, 1)))


def test_a_gpu_is_not_only_kept_for_a_process_that_outlived_the_last_agent() -> None:
    machine = Machine("A100", "A100")
    machine.run()
    (workload,) = machine.workloads.by_id.values()
    known = Known(workload.record.uid, workload.record.id)
    orphan = Orphan(5, 77, -1, "train.py", known, frozenset({0}))
    orphans: Any = SimpleNamespace(by_number=lambda: {5: orphan})
    drain = dataclasses.replace(drain_of(machine), orphans=orphans)
    (user,) = drain.rows(0, Visible.ALL)[0].users
    assert user.pids == [77]


def test_the_list_names_the_programs_that_a_user_may_see() -> None:
    machine = Machine("A100", "A100")
    drain = drain_of(machine)
    machine.run(Share(gpu=0.25, memory_bytes=GIB))
    (workload,) = machine.workloads.by_id.values()
    workload.record = msgspec.structs.replace(workload.record, program="train.py")
    workload.clients.add(7)
    machine.clients[7] = client = SimpleNamespace(pid=70, gpus=set(), unspoken=set())
    client.gpus.add(0)
    first, second = drain.rows(1, Visible.NOTHING)
    assert (first.promised_gpu, first.promised_bytes, first.others) == (0.25, GIB, 0)
    assert [(user.program, user.pids) for user in first.users] == [("train.py", [70])]
    assert not second.users
    for visible in (Visible.SIZES, Visible.NOTHING):
        (hidden,) = drain.rows(2, visible, ["GPU-0"])
        assert (hidden.users, hidden.others) == ([], 1)
    (seen,) = drain.rows(2, Visible.ALL, ["GPU-0"])
    assert len(seen.users) == 1
    line = protocol.encode(GpuList([seen]))
    assert protocol.decode_answer(line) == GpuList([seen])


def test_what_is_drained_outlives_the_agent(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    options: Any = Options()
    kept = SavedSettings({"turn_min_s": "9s"}).with_drained(["GPU-1", "GPU-0"], drained=True)
    saved_settings.write(directory, kept, options)
    found = saved_settings.read(directory, options, None)
    assert (found.drained, found.settings) == (["GPU-0", "GPU-1"], {"turn_min_s": "9s"})
    only_drained = found.without_settings()
    assert (only_drained.drained, only_drained.settings) == (found.drained, {})
    saved_settings.write(directory, only_drained, options, ends=True)
    assert saved_settings.read(directory, options, None).drained == found.drained
    none = only_drained.with_drained(found.drained, drained=False)
    saved_settings.write(directory, none, options)
    assert not directory.settings.exists()


def test_an_older_agent_understands_settings_without_drained_gpus() -> None:
    known = {"settings", "beside"}
    written = msgspec.json.decode(msgspec.json.encode(SavedSettings({"turn_min_s": "9s"})))
    assert set(written) <= known


def test_only_an_administrator_may_drain() -> None:
    assert rights.is_admin(Peer(1, os.getuid(), 0))
    # whoever goes on after the check fails for want of a field
    untouched: Any = SimpleNamespace(options=SimpleNamespace(pool_uid=12346))
    asked = protocol.DrainGpus(["0"])
    with pytest.raises(NotAllowed, match="may say which GPUs get programs"):
        asyncio.run(ControlCommands.on_drain_gpus(untouched, asked, Peer(1, 12345, 12345)))
    pool = Peer(1, 12346, 12346)  # it drains what fails, and gives nothing back
    with pytest.raises(AttributeError, match="drain"):
        asyncio.run(ControlCommands.on_drain_gpus(untouched, asked, pool))
    with pytest.raises(NotAllowed, match="may say which GPUs get programs"):
        asyncio.run(
            ControlCommands.on_drain_gpus(untouched, protocol.DrainGpus(["0"], False), pool)
        )
