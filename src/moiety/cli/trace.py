"""`moiety trace`: where the GPUs' time went."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

import click

from moiety.agent.control import protocol
from moiety.agent.control.client import call
from moiety.agent.system.paths import Directory, find
from moiety.cli.output import Duration, count
from moiety.model import errors


@click.command()
@click.option("-o", "--output", "file", metavar="FILE", help="Write a trace; `-` for stdout.")
@click.option("--since", type=Duration(), help="Only events of the last TIME, such as 30s.")
@click.option("--follow", type=Duration(), help="Record for this long; Ctrl-C ends it earlier.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
def trace(file: str | None, since: float | None, follow: float | None, force: bool) -> None:
    """Tell where the GPUs' time went, and write it down for a trace viewer.

    Without --follow, what the agent remembers, up to an hour; with it, from now on. FILE is for
    Perfetto or Chrome's tracing page: one process a GPU, one thread a program.
    """
    from moiety.trace.recording import Recording
    from moiety.trace.summary import sentences

    with Line(find()) as line, writing(file, force=force) as sink:
        since_s = time.monotonic() - since if since else 0.0
        if follow:
            since_s = since_s or time.monotonic()
        recording = Recording()
        if follow:
            recording.follow(line.ask, follow, since_s)
        else:
            recording.fetch(line.ask, since_s)
        recording.close(since_s)
        if sink:
            import msgspec

            from moiety.trace.perfetto import trace as as_events

            sink.write(msgspec.json.encode(as_events(recording, time.time())) + b"\n")
    lines = sentences(recording)
    if recording.lost:
        lines.append(f"{count(recording.lost, 'span')} came too fast to be kept")
    if recording.agent_ended:
        lines.append("the agent ended before that")
    for text in lines:
        click.echo(text, err=file == "-")


class Line:
    """A connection to the agent, and to the next agent after it ends."""

    def __init__(self, directory: Directory) -> None:
        """Connect; raises NoAgent."""
        self._directory = directory
        self._call = call(directory)

    def ask(self, request: protocol.TimelineRequest) -> protocol.Recorded:
        """One page; raises NoAgent if the agent ended and none follows."""
        try:
            return self._call.ask(request, protocol.Recorded)
        except errors.AgentSilent:
            self._call.close()
            self._call = call(self._directory)
            return self._call.ask(request, protocol.Recorded)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._call.close()


@contextmanager
def writing(file: str | None, *, force: bool) -> Iterator[IO[bytes] | None]:
    """Open FILE for writing; it appears complete or not at all. Raises FileError at once."""
    if file is None:
        yield None
        return
    if file == "-":
        if sys.stdout is None:
            raise errors.FileNotWritable(file, "stdout is closed")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as device:  # a pipe or a device: nothing to replace
                yield device
            return
        if path.is_dir():
            raise errors.FileNotWritable(file, "it is a folder")
        if path.exists() and not force:
            raise errors.FileExists(file)
        with whole(path) as sink:
            yield sink
    except OSError as error:
        raise errors.FileNotWritable(file, error.strerror or str(error)) from None


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path` that replaces it after all is written."""
    descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as sink:
            yield sink
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(sink.fileno(), 0o666 & ~mask)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
