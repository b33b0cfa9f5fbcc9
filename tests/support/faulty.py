"""An agent that does something terrible at a chosen step of what it hears and says.

`python -m tests.support.faulty OPTIONS` is `python -m moiety.agent OPTIONS`, and on SIGUSR2 reads
what is to go wrong next from the file that MOIETY_FAULT names: one JSON object.

    {"number": 7, "step": "evicted", "nth": 2, "whom": "peer", "signal": 9}

At the second EVICTED that it hears from then on, whoever sent it gets the signal, before the agent
looks at the message. Steps that it says itself (revoke, room, grant ...) are hit just after they
were carried out. `whom`: "peer" is who spoke or was spoken to, "other" somebody else, "agent" the
agent itself. Just before it happens, its number is written down beside that file, in FILE.done; if
somebody else is stopped, just after, so that whoever reads it can let that one go on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from moiety.agent.core import executor
from moiety.agent.process import main
from moiety.agent.shim import handlers
from moiety.arbiter import instructions as do
from moiety.wire.layout import Type

HEARD: Final = {
    "attach": Type.ATTACH,
    "context": Type.CONTEXT,
    "alloc": Type.ALLOC_REQUEST,
    "want": Type.LEASE_REQUEST,
    "drained": Type.DRAINED,
    "evicted": Type.EVICTED,
    "restored": Type.RESTORED,
    "free": Type.FREE,
}
SAID: Final[dict[str, type]] = {
    "admitted": do.Admitted,
    "revoke": do.Revoke,
    "evict": do.Evict,
    "room": do.RestoreBudget,
    "grant": do.Grant,
}
STEPS: Final = (*HEARD, *SAID)
VARIABLE: Final = "MOIETY_FAULT"
Step = Callable[[Any, Any, Any], None]


class Fault:
    """What is to go wrong next, if anything."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._plan: dict[str, Any] = {}
        self._left = 0

    def read(self, *_: object) -> None:
        """A signal handler: from now on it counts."""
        self._plan = self._written()
        self._left = self._plan.get("nth", 0)

    def _written(self) -> dict[str, Any]:
        text = self._path.read_text()
        return json.loads(text) if text else {}

    def passes(self, step: str, agent: Any, client: Any) -> None:
        """A step is taken: is it the one?"""
        if self._plan.get("step") != step:
            return
        whom: int | None = os.getpid()
        if self._plan["whom"] == "peer":
            whom = client.pid
        elif self._plan["whom"] == "other":
            whom = next((c.pid for c in agent.clients.values() if c.pid != client.pid), None)
        self._left -= 1
        if self._left > 0 or whom is None:
            return
        plan, self._plan = self._plan, {}
        if plan["number"] != self._written().get("number"):
            return  # it was to happen earlier, and never did
        is_told_after = plan["signal"] == signal.SIGSTOP and whom != os.getpid()
        if not is_told_after:
            done_of(self._path).write_text(str(plan["number"]))
        os.kill(whom, plan["signal"])
        if is_told_after:
            done_of(self._path).write_text(str(plan["number"]))


def done_of(path: Path) -> Path:
    """Where the number of the fault that happened last is."""
    return path.with_name(path.name + ".done")


def install(fault: Fault) -> None:
    """Put the fault in the way of every step."""

    def before(step: str, does: Step) -> Step:
        def both(agent: Any, client: Any, message: Any) -> None:
            fault.passes(step, agent, client)
            does(agent, client, message)

        return both

    def after(step: str, does: Step) -> Step:
        def both(agent: Any, client: Any, instruction: Any) -> None:
            does(agent, client, instruction)
            fault.passes(step, agent, client)

        return both

    for step, kind in HEARD.items():
        handlers.HANDLERS[kind] = before(step, handlers.HANDLERS[kind])
    for step, cls in SAID.items():
        executor._CARRY[cls] = after(step, executor._CARRY[cls])


if __name__ == "__main__":
    chosen = Fault(Path(os.environ[VARIABLE]))
    install(chosen)
    signal.signal(signal.SIGUSR2, chosen.read)
    sys.exit(main(sys.argv[1:]))
