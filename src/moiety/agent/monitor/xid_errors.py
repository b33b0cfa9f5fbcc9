"""Errors that a GPU's driver reports (XID): written down; a GPU that is gone is given to nobody."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING, Final

from moiety.arbiter import events as ev

if TYPE_CHECKING:
    from moiety.agent.core.runtime import Node

WAIT_S: Final = 60.0
"""of one call; what happens meanwhile wakes it"""
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
"""of the numbers in NVIDIA's list that administrators meet"""
_XID: Final = re.compile(r"XID (\d+)")
"""how the text of an event begins"""


class GpuErrors:
    """Listens to the driver in a thread of its own, which ends with the agent."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._stopped = False

    def start(self) -> None:
        """Begin, with what earlier agents wrote down."""
        remember(self._node)
        threading.Thread(target=self._listen, name="gpu-errors", daemon=True).start()

    def stop(self) -> None:
        """Tell nobody any more."""
        self._stopped = True

    def _listen(self) -> None:
        node = self._node
        while not self._stopped:
            try:
                found = node.devices.next_error(WAIT_S)
            except Exception as error:  # whatever NVML raises: then nobody is told
                node.log.warning("errors of GPUs are not told", problem=str(error))
                return
            if found is not None and not self._stopped:
                try:
                    node.loop.call_soon_threadsafe(self._tell, *found)
                except RuntimeError:  # the loop has ended
                    return

    def _tell(self, gpu: int, xid: int) -> None:
        node = self._node
        if gpu not in node.gpus:
            return
        meaning = MEANINGS.get(xid, "see NVIDIA's list of XIDs and the kernel's log")
        if xid == OFF_BUS:
            node.lost[gpu] = f"GPU {gpu} has fallen off the bus (XID {xid})"
            node.feed(ev.GpuLost(gpu))
        node.errors.setdefault(gpu, {})[xid] = node.loop.time()
        there = ", ".join(sorted(str(c) for c in node.clients.values() if gpu in c.gpus))
        text = f"XID {xid}: {meaning}; it is used by {there or 'nobody'}"
        node.log.warning("GPU error", gpu=gpu, xid=xid, text=text)
        node.journal.note("GpuError", text, None, gpu)


def remember(node: Node) -> None:
    """Whatever earlier agents were told of these GPUs, as far as the journal goes back."""
    for event in node.journal.ring:
        xid = _XID.match(event.message) if event.reason == "GpuError" else None
        if xid and event.gpu in node.gpus:
            ago_s = max(0.0, time.time() - event.at_s)
            node.errors.setdefault(event.gpu, {})[int(xid[1])] = node.loop.time() - ago_s
