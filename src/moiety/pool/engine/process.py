"""The engine as the server has it: a process that answers one request after the other."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import IO, Any, TypeVar, cast

import msgspec

from moiety.model.errors import InternalError
from moiety.pool.engine.messages import (
    CycleAnswer,
    CycleRequest,
    EngineAnswer,
    EngineFailed,
    EngineRequest,
    ExplainAnswer,
    ExplainRequest,
    ReasonsAnswer,
    ReasonsRequest,
    ResizeAnswer,
    ResizeRequest,
    StartsAnswer,
    StartsRequest,
    receive,
    send,
)
from moiety.pool.paths import PoolPaths

A = TypeVar("A", CycleAnswer, ReasonsAnswer, StartsAnswer, ExplainAnswer, ResizeAnswer)


class EngineProcess:
    """Asks the engine; a process that died is started again with the next question."""

    def __init__(self, paths: PoolPaths, log: int) -> None:
        """`log` is the descriptor of a file for what it complains about."""
        self._paths = paths
        self._log = log
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def cycle(self, asked: CycleRequest) -> CycleAnswer:
        """What is to be done; raises InternalError."""
        return self._ask(asked, CycleAnswer)

    def reasons(self, asked: ReasonsRequest) -> ReasonsAnswer:
        """Why workloads wait; raises InternalError."""
        return self._ask(asked, ReasonsAnswer)

    def starts(self, asked: StartsRequest) -> StartsAnswer:
        """When workloads will begin; raises InternalError."""
        return self._ask(asked, StartsAnswer)

    def explain(self, asked: ExplainRequest) -> ExplainAnswer:
        """Why one workload waits, and until when; raises InternalError."""
        return self._ask(asked, ExplainAnswer)

    def resize(self, asked: ResizeRequest) -> ResizeAnswer:
        """Whether a workload may have another part of its GPUs; raises InternalError."""
        return self._ask(asked, ResizeAnswer)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _ask(self, asked: EngineRequest, expected: type[A]) -> A:
        with self._lock:
            for _ in range(2):
                process = self._running()
                try:
                    send(cast("IO[bytes]", process.stdin), asked)
                    body = receive(cast("IO[bytes]", process.stdout))
                except OSError:
                    body = None
                if body is not None:
                    break
                self._end()
            else:
                raise InternalError("the engine's process ended twice while it decided")
        answer: Any = msgspec.msgpack.decode(body, type=EngineAnswer)
        if isinstance(answer, EngineFailed):
            raise InternalError(f"the engine failed: {answer.problem}")
        assert isinstance(answer, expected), "it answers what it was asked"
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._end()  # it has just died: its pipes are closed, too
        if self._process is None:
            agent = self._paths.agent
            which = "system" if agent.shared else "own"
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moiety.pool.engine", str(agent.path), which],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
            )
        return self._process

    def _end(self) -> None:
        if self._process is None:
            return
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass  # it died with something unread
        self._process.kill()
        self._process.wait()
        self._process = None
