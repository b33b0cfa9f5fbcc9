"""Another process on the same card, which does one thing for each line that it is sent."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SCRIPT = Path(__file__).resolve().parents[1] / "facts.py"


class Peer:
    """The process; gone when the block ends."""

    def __init__(self, role: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--peer", role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def ask(self, what: str) -> dict[str, Any]:
        """Have it do something, and hear about it.

        Raises:
            RuntimeError: it failed, or is gone.
        """
        self.tell(what)
        return self.hear()

    def tell(self, what: str) -> None:
        """Have it begin something."""
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """What came of it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the other process ended with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"in the other process: {answer['error']}")
        return answer

    def kill(self) -> None:
        """SIGKILL, in whatever it does."""
        self.process.kill()
        self.process.wait()


def serve(step: Callable[[str], dict[str, Any] | None]) -> None:
    """The other side: answer each line until there are no more."""
    for line in sys.stdin:
        what = line.strip()
        if what == "exit":
            break
        try:
            answer = step(what) or {}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    sys.stdout.flush()
    os._exit(0)  # as a program that ends without tidying up
