"""Agents that follow a killed one where its file system is full: nothing of theirs is new."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.wire.layout import Type
from tests.support.foreground import AgentProcess, pretended_native, uuid_of
from tests.support.small_disk import fill, small_disk
from tests.support.wire_fakes import Shim

GIB = 1 << 30
INODES = 64


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretended_native(tmp_path_factory.mktemp("native"), 16 * GIB)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB, where this process may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    with small_disk(folder, f"size=256k,nr_inodes={INODES}"):
        yield folder


def fill_all(folder: Path) -> None:
    """Leave no free byte and no free inode."""
    fill(folder)
    with contextlib.suppress(OSError):
        for number in range(INODES):
            (folder / f"empty{number}").touch()
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        (folder / "one-more").touch()


@pytest.mark.parametrize("locks", ["elsewhere", "there"])
def test_programs_get_their_agent_back(small: Path, pretended: Path, locks: str) -> None:
    agent = AgentProcess(small / "a", pretended, ["--arena", "64GiB"])
    if locks == "there":
        (small / "locks").mkdir()
        agent.environment["MOIETY_LOCK_DIR"] = str(small / "locks")
    with agent:
        shim = Shim(agent.workload())
        shim.hello()
        shim.attach(uuid_of(0))
        shim.allocated(0, GIB)
        shim.expect(Type.GRANT)
        agent.kill()
        fill_all(small)

        agent.start()
        shim.resume(holding=True)
        shim.attach(uuid_of(0), allocated=GIB, resident=GIB)
        (row,) = agent.ps()
        assert (row.state, row.allocated_bytes) == ("holding", GIB)
        assert agent.status().arena_bytes == 64 * GIB
        shim.close()


def test_a_socket_that_cannot_be_made_is_made_as_soon_as_it_can_be(
    small: Path, pretended: Path
) -> None:
    with AgentProcess(small / "a", pretended, []) as agent:
        shim = Shim(agent.workload())
        shim.hello()
        shim.attach(uuid_of(0))
        (socket,) = agent.directory.workloads.glob("*/shim.sock")
        agent.kill()
        socket.unlink()
        (small / "taken").touch()  # another program was faster
        fill_all(small)

        agent.start()
        assert not socket.exists()
        (small / "taken").unlink()
        shim.resume(holding=False)
        shim.attach(uuid_of(0))
        assert len(agent.ps()) == 1
        shim.close()
