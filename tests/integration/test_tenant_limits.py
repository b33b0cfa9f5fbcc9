"""What a program of another user tries with what the agent gave it, and cannot have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.testing.waiting import until
from tests.support.foreground import AgentProcess, pretended_native
from tests.support.users import ALICE, BOB, OtherUser, Raised, open_folder

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]

MIB = 1 << 20
ARGUMENTS = ["--linger", "0", "--arena", "1GiB", "--arena-ready", "128MiB"]
CREATE = (
    "call = Call(Directory(Path({path!r}), shared=True)); shim = Shim(call.ask("
    "protocol.CreateWorkload('x', ['x'], '/', Share()), protocol.Created).socket); shim.hello();"
    " shim.attach(uuid_of(0))"
)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    native = pretended_native(tmp_path_factory.mktemp("native"), 512 * MIB)
    with (
        open_folder() as folder,
        AgentProcess(folder / "s", native, ARGUMENTS, system=True) as running,
    ):
        running.arguments = ARGUMENTS
        yield running


def come(agent: AgentProcess, uid: int) -> OtherUser:
    """A user with a program on the GPU."""
    user = OtherUser(uid, os.environ)
    user.do(CREATE.format(path=str(agent.directory.path)))
    return user


WAYS = {
    "map it writable": "mmap.mmap(shim.page_fd, 4096, prot=mmap.PROT_WRITE | mmap.PROT_READ)",
    "write": "os.write(shim.page_fd, b'1')",
    "pwrite": "os.pwrite(shim.page_fd, b'1', 0)",
    "cut it": "os.ftruncate(shim.page_fd, 0)",
    "let it grow": "os.ftruncate(shim.page_fd, 8192)",
    "reopen and write": "os.write(os.open(f'/proc/self/fd/{shim.page_fd}', os.O_RDWR), b'1')",
    "reopen and map": "mmap.mmap(os.open(f'/proc/self/fd/{shim.page_fd}', os.O_RDWR), 4096)",
    "truncate by path": "os.truncate(f'/proc/self/fd/{shim.page_fd}', 0)",
    "change its mode": "os.fchmod(shim.page_fd, 0o777)",
    "take its seals off": "fcntl.fcntl(shim.page_fd, fcntl.F_ADD_SEALS, 0x1f)",
    "punch a hole": "fallocate(shim.page_fd, 3, 0, 4096)",
    "make the mapping writable": "mprotect()",
}
HELPERS = """
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result != 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def fallocate(fd, mode, offset, size):
    checked(libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(size)))
def mprotect():
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(4096), 1, 1, shim.page_fd, ctypes.c_long(0))
    checked(libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(4096), 3))
"""


def test_a_lease_word_is_the_agents_to_write(agent: AgentProcess) -> None:
    with come(agent, ALICE) as alice:
        alice.do(HELPERS)
        before = alice.do("shim.word")
        for way, tried in WAYS.items():
            with pytest.raises(Raised) as refused:
                alice.do(tried)
            assert refused.value.kind == "PermissionError", f"{way}: {refused.value}"
        assert alice.do("shim.word") == before


def test_nobody_reads_the_memory_of_others(agent: AgentProcess) -> None:
    assert agent.process
    with come(agent, ALICE) as alice, come(agent, BOB) as bob:
        for user in (alice, bob):
            user.do("serial = shim.alloc(0, 400 << 20)")
        alice.do("while not shim.segments: shim.expect(Type.ARENA)")
        alice.do("fd = next(iter(shim.segments.values()))")
        alice.do("at = mmap.mmap(fd, 0); at[:6] = b'secret'; at[-6:] = b'secret'")
        number = alice.do("fd")
        for pid in (alice.pid, agent.process.pid):
            with pytest.raises(Raised) as refused:
                bob.do(f"os.listdir('/proc/{pid}/fd')")
            assert refused.value.kind == "PermissionError"
        with pytest.raises(Raised, match="Permission"):
            bob.do(f"os.open('/proc/{alice.pid}/fd/{number}', os.O_RDONLY)")
        # What one gives back is never lent to another, even while the first one keeps it mapped.
        segment = alice.do("next(iter(shim.segments))")
        alice.do(f"shim.send(ArenaMessage(Type.ARENA_BACK, 0, {segment}, 0))")
        bob.do("while len(shim.segments) < 2: shim.expect(Type.ARENA)")
        assert segment not in bob.do("list(shim.segments)")
        seen = "sum(mmap.mmap(f, 0).read().count(b'secret') for f in shim.segments.values())"
        assert bob.do(seen) == 0


def test_nobody_claims_what_another_has(agent: AgentProcess) -> None:
    """A name, a pid and numbers of tenants in messages mean nothing: the socket does."""
    with come(agent, ALICE) as alice, come(agent, BOB) as bob:
        tenant = alice.do("shim.tenant")
        assert bob.do("shim.tenant") != tenant
        bob.do("shim.serial += 1")
        bob.do(
            "shim.send(AttachMessage(Type.ATTACH, shim.serial, uuid_of(0), "
            "allocated_bytes=1 << 20))"
        )
        with pytest.raises(Raised, match="Closed"):
            bob.do("while True: shim.receive()")
        rows = {row.tenant: row for row in agent.ps()}
        assert rows[tenant].uid == ALICE
        assert rows[tenant].allocated_bytes == 0


def test_the_agents_files_are_for_nobody_else(agent: AgentProcess) -> None:
    folder = agent.directory.path
    until(lambda: not agent.ps())  # those of earlier tests are gone, with their files
    with come(agent, ALICE) as alice, come(agent, BOB) as bob:
        own = alice.do("shim.path")
        files = [*folder.glob("*.*"), *Path(own).parent.glob("*.json")]
        named = {path.name for path in files}
        assert named >= {"agent.lock", "agent.log", "events.jsonl", "workload.json"}
        for path in files:
            if path.name == "control.sock":
                continue
            with pytest.raises(Raised, match="Permission"):
                bob.do(f"open({str(path)!r}, 'rb').read(1)")
        with pytest.raises(Raised, match="Permission"):
            bob.do(f"open({str(folder / 'new')!r}, 'wb')")
