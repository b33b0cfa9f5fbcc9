"""Errors that a GPU's driver reports (XID): recorded here; a lost GPU is given to no program."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import Final

from moiety.agent.core.client import Client
from moiety.agent.core.gpus import Gpus
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import Runtime
from moiety.agent.system.event_loop import EventLoop
from moiety.arbiter import events as ev
from moiety.devices.interface import Devices

WAIT_S: Final = 60.0
"""Seconds that one call waits at most; an error ends it."""
AGAIN_S: Final = 60.0
"""Seconds after which NVML is asked again that could not say what failed."""
OFF_BUS: Final = 79
MEANINGS: Final = {
    13: "a program's kernel failed",
    31: "a program's kernel used an address that is not its own",
    43: "a program's work failed; the GPU is well",
    45: "a program's work was removed, mostly because the program ended",
    48: "memory of the GPU lost its content (double-bit ECC error)",
    63: "the GPU took a faulty row of its memory out of use",
    64: "the GPU could not take a faulty row of its memory out of use",
    74: "a link to another GPU failed",
    79: "the GPU has fallen off the bus; the machine has to be started anew",
    94: "memory of a program lost its content; others are not concerned",
    95: "memory of the GPU lost its content; it has to be reset",
}
"""By XID: what it means. These are the XIDs of NVIDIA's list that administrators meet."""
_XID: Final = re.compile(r"XID (\d+)")
"""The beginning of an event's text."""


class XidErrors:
    """Listens to the driver in a thread of its own, which ends with the agent."""

    def __init__(
        self,
        runtime: Runtime,
        loop: EventLoop,
        devices: Devices,
        *,
        gpus: Gpus,
        clients: Mapping[int, Client],
        journal: Journal,
    ) -> None:
        self._runtime = runtime
        self._loop = loop
        self._devices = devices
        self._gpus = gpus
        self._clients = clients
        self._journal = journal
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin, with the errors in earlier agents' journal."""
        remember(self._gpus, self._journal, self._runtime.now())
        threading.Thread(target=self._listen, name="gpu-errors", daemon=True).start()

    def stop(self) -> None:
        """Report no more errors."""
        self._stopped.set()

    def _listen(self) -> None:
        problem = ""
        while not self._stopped.is_set():
            try:
                found = self._devices.next_error(WAIT_S)
            except Exception as error:  # NVML raises anything; the next error may be told again
                if str(error) != problem:
                    problem = str(error)
                    self._runtime.log.warning("xid_errors_unreadable", problem=problem)
                self._stopped.wait(AGAIN_S)
                continue
            problem = ""
            if found is not None and not self._stopped.is_set():
                try:
                    self._loop.call_soon_threadsafe(self._tell, *found)
                except RuntimeError:  # the loop has ended
                    return

    def _tell(self, gpu: int, xid: int) -> None:
        found = self._gpus.get(gpu)
        if found is None:
            return
        meaning = MEANINGS.get(xid, "see NVIDIA's list of XIDs and the kernel's log")
        if xid == OFF_BUS:
            found.lost = f"GPU {gpu} has fallen off the bus (XID {xid})"
            self._runtime.feed(ev.GpuLost(gpu))
        found.errors[xid] = self._runtime.now()
        there = ", ".join(sorted(str(c) for c in self._clients.values() if gpu in c.gpus))
        text = f"XID {xid}: {meaning}; it is used by {there or 'no program'}"
        self._runtime.log.warning("xid_error", gpu=gpu, xid=xid, text=text)
        self._journal.note("GpuError", text, None, gpu)


def remember(gpus: Gpus, journal: Journal, now_s: float) -> None:
    """Restore the errors of these GPUs from the journal, as far as it goes back."""
    for event in journal.ring:
        xid = _XID.match(event.message) if event.reason == "GpuError" else None
        if xid and event.gpu is not None and event.gpu in gpus:
            ago_s = max(0.0, time.time() - event.at_s)
            gpus[event.gpu].errors[int(xid[1])] = now_s - ago_s
