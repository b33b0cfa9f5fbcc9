"""The processes that outlived the last agent, and how long this agent waits for them.

Until they are back, or are counted as orphans, the arbiter only listens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from moiety.agent.core.client import Client
from moiety.agent.core.orphans import Orphans
from moiety.agent.core.runtime import Runtime
from moiety.agent.system.kernel import Kernel
from moiety.arbiter import events as ev

SETTLE_S = 1.0
"""How long a new agent waits for the processes that outlived the last one."""
SETTLE_MOST_S = 5.0
"""The same for processes that are not stopped, and so can come back."""
UNSETTLED: Final = "the agent has just started and waits for running programs to reconnect"
"""Why no tenant gets a lease until then."""


class Recovery:
    """Ends once every process of the last agent is back, dead or counted as an orphan."""

    def __init__(
        self,
        runtime: Runtime,
        orphans: Orphans,
        kernel: Kernel,
        clients: Mapping[int, Client],
        expected: Mapping[int, frozenset[int]],
        fenced: Iterable[int] = (),
    ) -> None:
        """`expected` are the GPUs of each such process by pid, `fenced` the pids of fenced ones."""
        self._runtime = runtime
        self.orphans = orphans
        self._kernel = kernel
        self._clients = clients
        self._expected = dict(expected)
        self._outlived = set(expected)
        """Pids that have not connected to this agent yet."""
        self._fenced = set(fenced)
        self.is_settled = not self._expected
        self.on_settled: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Wait from now on, if processes outlived the last agent."""
        if not self.is_settled:
            self._runtime.call_at(self._runtime.now() + SETTLE_S, self._give_up_waiting)

    def may_hold(self, pid: int) -> bool:
        """Tell whether a process may have a lease of the last agent."""
        return pid in self._outlived

    def was_fenced(self, pid: int) -> bool:
        """Tell whether the last agent fenced a process, and it has not answered since."""
        return pid in self._fenced

    def outlived(self, pid: int) -> bool:
        """Tell whether a process outlived the last agent, and has not come back yet."""
        return (not self.is_settled and pid in self._expected) or self.orphans.has(pid)

    def connected(self, pid: int) -> None:
        """A process has introduced itself to this agent."""
        self._outlived.discard(pid)
        self._fenced.discard(pid)

    def came_back(self, pid: int, gpus: Collection[int] | None) -> None:
        """A process has attached these GPUs again, or (None) is gone."""
        if self.is_settled:
            return
        needed = self._expected.get(pid)
        if needed is not None and (gpus is None or needed <= set(gpus)):
            del self._expected[pid]
        if not self._expected:
            self._settle("all processes are back")

    def is_missing(self, pid: int) -> bool:
        """Tell whether a process of the last agent has not connected to this one."""
        return pid in self._expected and all(c.pid != pid for c in self._clients.values())

    def _give_up_waiting(self, waited_s: float = SETTLE_S) -> None:
        """Count processes that are not back by what the driver says.

        That much memory then cannot leave, and a request for more is refused for good: so a process
        that is only slow, on a busy machine, gets some more seconds.
        """
        for pid in [pid for pid in self._expected if self._kernel.start_time(pid) is None]:
            self.came_back(pid, None)  # it ended without a connection, so no event said so
        slow = (pid for pid in self._expected if not self._kernel.is_stopped(pid))
        if not self.is_settled and waited_s < SETTLE_MOST_S and any(slow):
            when_s = self._runtime.now() + SETTLE_S
            self._runtime.call_at(when_s, self._give_up_waiting, waited_s + SETTLE_S)
            return
        pids = list(self._expected)
        self.orphans.count(pids, self.is_missing, lambda: self._settle("time is up"))

    def _settle(self, reason: str) -> None:
        if not self.is_settled:
            self.is_settled = True
            missing = sorted(self._expected)
            self._runtime.log.info("settled", reason=reason, missing=missing)
            self._runtime.feed(ev.Settled())
            for call in self.on_settled:
                call()
