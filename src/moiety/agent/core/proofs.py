"""What shows how much the processes of the last agent have: its records, and the driver.

A process that outlived the last agent says what it has. As much as that agent recorded counts
without another decision. It may have grown just before the agent ended: what is refused of its
word is asked of NVML, and counts when the process comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from moiety.agent.core.client import Client
from moiety.agent.core.gpu_probe import GpuProbe
from moiety.agent.core.gpus import Gpus
from moiety.agent.system.kernel import Kernel
from moiety.devices.interface import Usage

Held = tuple[int, int]
"""Bytes that a process has allocated on a GPU, and those of them that are pinned."""
Recorded = Mapping[int, Mapping[int, Held | None]]
"""By pid and GPU; None: a record of an older version, which names no bytes."""
NOTHING: Held = (0, 0)


class Proofs:
    """The proofs of one agent; each counts for one report of its process."""

    def __init__(self, probe: GpuProbe, gpus: Gpus, kernel: Kernel, recorded: Recorded) -> None:
        self._probe = probe
        self._gpus = gpus
        self._held = {(pid, kernel.start_time(pid)): dict(on) for pid, on in recorded.items()}
        """By pid and start time, so that a reused pid proves nothing."""

    def gpus_of(self, client: Client) -> set[int]:
        """The GPUs where the last agent recorded a context that was not reported since."""
        return set(self._of(client))

    def of(self, client: Client, gpu: int) -> Held | None:
        """What is proven of a process; None: a record of an older version says nothing of it."""
        return self._of(client).get(gpu, NOTHING)

    def beside(self, client: Client, gpu: int, known: Held | None) -> Held | None:
        """What a process has: what this agent knows, or more that is proven and not reported."""
        proof = self.of(client, gpu)
        if known is None or proof is None:
            return known or proof
        return max(known[0], proof[0]), max(known[1], proof[1])

    def take(self, client: Client, gpu: int) -> Held | None:
        """The same, for a report that comes now: from now on, what was counted is known."""
        return self._of(client).pop(gpu, NOTHING)

    def ask(self, client: Client, gpu: int) -> None:
        """Ask the driver what a process of the last agent really has, for its next report."""
        if (client.pid, client.started) in self._held:
            self._probe.usage(gpu, partial(self._answered, client, gpu))

    def forget(self, client: Client) -> None:
        """A process is gone, or is another program now."""
        self._held.pop((client.pid, client.started), None)

    def _of(self, client: Client) -> dict[int, Held | None]:
        return self._held.get((client.pid, client.started), {})

    def _answered(self, client: Client, gpu: int, usage: Usage | None) -> None:
        if usage is not None and (client.pid, client.started) in self._held:
            residue = self._gpus[gpu].expected_residue_bytes(client.uid)
            data = max(0, usage.processes.get(client.pid, 0) - residue)
            self._of(client)[gpu] = (data, 0)
