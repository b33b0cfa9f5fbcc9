"""Follows the pool's queue: the list is shown again when something in it has changed."""

from __future__ import annotations

import http.client
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final

import click

from moiety.model.errors import PoolSilent
from moiety.pool.connection import UnixConnection
from moiety.pool.model.names import API_VERSION
from moiety.pool.paths import PoolPaths

LOOK_S: Final = 1.0
"""The list is asked for once in this time at most: it costs the pool more than its changes."""
CLEAR: Final = "\x1b[H\x1b[2J"
CHANGED: Final = frozenset({b"event: workload", b"event: reload"})


def follow(paths: PoolPaths, show: Callable[[], None]) -> None:
    """Show the list, and again after each change, until Ctrl-C; raises NoPool or PoolSilent."""
    is_terminal = sys.stdout.isatty()

    def show_alone() -> None:
        if is_terminal:
            click.echo(CLEAR, nl=False)
        show()

    while True:
        until_changed(paths, show_alone)
        time.sleep(LOOK_S)


def until_changed(paths: PoolPaths, show: Callable[[], None]) -> None:
    """Show the list once, and wait until the pool tells that something has changed since."""
    with closing(UnixConnection(paths)) as connection:
        with _answering():
            connection.request("GET", f"/{API_VERSION}/events")
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise PoolSilent(f"it answered {answer.status} to a watcher")
            answer.readline()  # from here on, no change is missed
        show()  # what fails here is not the pool: a pipe that was closed, say
        with _answering():
            while line := answer.readline():
                if line.rstrip() in CHANGED:
                    return
        raise PoolSilent("it has ended")


@contextmanager
def _answering() -> Iterator[None]:
    """Raise PoolSilent where the connection to the pool fails."""
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise PoolSilent(str(error) or "it closed the connection") from None
