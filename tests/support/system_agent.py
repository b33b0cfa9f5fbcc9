"""An agent for all users, and processes of users who have a conversation with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.foreground import AgentProcess, pretended_native
from tests.support.users import OtherUser, open_folder

Users = Callable[[int], OtherUser]
"""Makes a process of the user with this number."""


@contextmanager
def system_agent(
    native: Path, arguments: Sequence[str], total_bytes: int
) -> Iterator[AgentProcess]:
    """An agent over one pretended GPU of this size; its libraries are made in `native`."""
    made = pretended_native(native, total_bytes)
    with (
        open_folder() as folder,
        AgentProcess(folder / "s", made, arguments, system=True) as running,
    ):
        yield running


@contextmanager
def conversing(path: Path, environment: Mapping[str, str] = os.environ) -> Iterator[Users]:
    """Users of the agent in the folder `path`, as `there`, with a conversation, as `call`."""
    with ExitStack() as stack:

        def come(uid: int) -> OtherUser:
            user = stack.enter_context(OtherUser(uid, environment))
            user.do(f"there = Directory(Path({str(path)!r}), shared=True); call = Call(there)")
            return user

        yield come
