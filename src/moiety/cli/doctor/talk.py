"""The doctor's connections to agents: an agent that does not answer is asked only once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moiety.agent.control.client import Call
from moiety.agent.system.paths import Directory
from moiety.model.errors import AgentSilent

TIMEOUT_S: Final = 5.0

_silent: dict[Path, AgentSilent] = {}


@contextmanager
def talk(directory: Directory) -> Iterator[Call]:
    """A connection; raises as `Call`, and AgentSilent at once if the agent was silent before."""
    if error := _silent.get(directory.path):
        raise error
    try:
        with Call(directory, TIMEOUT_S) as call:
            yield call
    except AgentSilent as error:
        _silent[directory.path] = error
        raise
