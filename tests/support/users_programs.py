"""An agent for all users over a simulated GPU, and programs that users run under it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.support.foreground import AgentProcess
from tests.support.users import OtherUser

MIB: Final = 1 << 20
AGENT: Final = 65010
"""A user of the agent's own."""
GPU: Final = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
QUICK: Final = ["--quantum", "3ms", "--idle-min", "2ms", "--idle-free", "1ms", "--linger", "0"]
RUN: Final = """
pid = os.fork()
if pid == 0:
    try:
        for number, name in ((1, {out!r}), (2, {err!r})):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
        moiety.cli.main.main({arguments!r})
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code or 0)
    except BaseException:
        traceback.print_exc()
    os._exit(99)
"""
WAIT: Final = "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"


class Setting:
    """A folder for all users, an agent for them, and what their programs need."""

    def __init__(
        self,
        folder: Path,
        native: Path,
        programs: Iterable[Path],
        *,
        gpu: str = GPU,
        options: Sequence[str] = tuple(QUICK),
    ) -> None:
        """Copy `programs`, and prepare an agent with these options; entering `agent` starts it."""
        self.folder = folder
        for name in ("state", "out"):
            (folder / name).mkdir()
            os.chmod(folder / name, 0o777)
        # Where they were built may be nobody else's to read.
        shutil.copytree(native / "simgpu", folder / "native" / "simgpu")
        shutil.copy(native / "libmoiety.so", folder / "native")
        for program in programs:
            shutil.copy(program, folder)
        self.agent = AgentProcess(folder / "s", folder / "native", options, system=True)
        self.agent.environment |= {
            "MOIETY_SIMGPU": gpu,
            "MOIETY_SIMGPU_STATE": str(folder / "state"),
        }
        for variable in ("MOIETY_HOST_MEMORY",):
            del self.agent.environment[variable]

    def user(self, uid: int) -> OtherUser:
        """A user in the environment of the agent."""
        return OtherUser(uid, self.agent.environment)

    def moiety(self, user: OtherUser, *arguments: str) -> tuple[int, str, str]:
        """A command's end, as a user runs it."""
        self.begin(user, *arguments)
        code = user.do(WAIT)
        return code, *(self.said(user, stream) for stream in ("out", "err"))

    def begin(self, user: OtherUser, *arguments: str) -> None:
        """A user starts a command, and does not wait for its end."""
        pid = user.pid
        names = {s: str(self.folder / "out" / f"{pid}.{s}") for s in ("out", "err")}
        user.do(RUN.format(**names, arguments=list(arguments)))

    def said(self, user: OtherUser, stream: str) -> str:
        """What the user's last command said: out or err."""
        return (self.folder / "out" / f"{user.pid}.{stream}").read_text()

    @property
    def kernels(self) -> str:
        """The module of kernels that programs load."""
        return str(self.folder / "native" / "simgpu" / "kernels.elf")

    def worker(self, size: int, rounds: int) -> list[str]:
        """A program that computes in `size` bytes and checks them."""
        return [str(self.folder / "worker"), self.kernels, str(size), str(rounds), "1", "0", "7"]
