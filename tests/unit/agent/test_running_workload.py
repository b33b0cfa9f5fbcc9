"""One workload of an agent: when it is alive, and whose processes are bounded."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from moiety.agent.control.records import Record
from moiety.agent.control.running_workload import RunningWorkload, as_promised, is_unbounded
from moiety.agent.system.processes import Peer
from moiety.model.share import Share

AGENT = 0
RECORD = Record("w", 1000, 1, 1, "p", ["p"], "/", share=Share(memory_limit_bytes=5))


def test_a_workload_lives_while_it_has_a_process_and_stays_as_a_container_share() -> None:
    with socket.socket() as listener:
        workload = RunningWorkload(RECORD, "/f", listener, root_pidfd=-1)
        living = [workload.is_alive]
        staying = [workload.stays]
        workload.clients.add(3)
        living.append(workload.is_alive)
        workload.record = msgspec.structs.replace(RECORD, container="c")
        staying.append(workload.stays)
        assert (living, staying) == ([False, True], [False, True])
        assert workload.socket != "/f/shim.sock", "containers get a folder of its own"


def test_its_share_is_what_it_asked_for() -> None:
    with socket.socket() as listener:
        assert as_promised(RunningWorkload(RECORD, "/f", listener, -1)) == RECORD.share


def test_what_it_is_promised_counts_from_its_beginning_or_its_last_raise(tmp_path: Path) -> None:
    with socket.socket() as listener:
        workload = RunningWorkload(RECORD, str(tmp_path), listener, -1, began_s=1.0)
        found = []
        for now_s, share in enumerate((Share(gpu=0.2), Share(gpu=0.1), Share(memory_bytes=1)), 2):
            workload.promise(msgspec.structs.replace(RECORD, share=share), now_s)
            found.append(workload.promised_s)
            assert workload.record.share == share
        assert (workload.began_s, found) == (1.0, [2, 2, 4])


def test_only_an_administrators_processes_are_unbounded() -> None:
    root, user = Peer(1, 0, 0), Peer(2, 1000, 1000)
    of_root = msgspec.structs.replace(RECORD, uid=0)
    assert is_unbounded(of_root, root, AGENT)
    assert not is_unbounded(RECORD, user, AGENT)
    assert not is_unbounded(RECORD, root, AGENT)
    assert not is_unbounded(msgspec.structs.replace(of_root, container="c"), root, AGENT)
