"""The engine's process: it reads requests on stdin and answers on stdout, until stdin ends."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import msgspec

from moiety.agent.system.paths import Directory
from moiety.pool.engine.messages import (
    CycleRequest,
    EngineAnswer,
    EngineFailed,
    EngineRequest,
    ExplainRequest,
    ReasonsRequest,
    ResizeRequest,
    StartsRequest,
    receive,
    send,
)
from moiety.pool.engine.planner import PoolPlanner
from moiety.pool.paths import PoolPaths
from moiety.pool.store.database import reader


def answered(planner: PoolPlanner, request: EngineRequest) -> EngineAnswer:
    """The answer to one request."""
    match request:
        case CycleRequest():
            return planner.cycle(request)
        case ReasonsRequest():
            return planner.reasons(request)
        case StartsRequest():
            return planner.starts(request)
        case ExplainRequest():
            return planner.explain(request)
        case ResizeRequest():
            return planner.resize(request)


def main() -> int:
    """Serve one server: `python -m moiety.pool.engine AGENT-FOLDER own|system`."""
    directory = Directory(Path(sys.argv[1]), shared=sys.argv[2] == "system")
    planner = PoolPlanner(reader(PoolPaths(directory)))
    while (body := receive(sys.stdin.buffer)) is not None:
        request: EngineRequest = msgspec.msgpack.decode(body, type=EngineRequest)
        answer: EngineAnswer
        try:
            answer = answered(planner, request)
        except Exception as error:
            traceback.print_exc()
            answer = EngineFailed(f"{type(error).__name__}: {error}")
        send(sys.stdout.buffer, answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
