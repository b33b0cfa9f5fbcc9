"""Does a trace again, and says where a result is not the one that was recorded.

    python -m tests.traces.replay TRACE KERNELS [--scale 0.1] [--times 3] [--pause 20ms:50]
                                   [--ballast BYTES]

Kernels take time and do nothing. Memory larger than 2 MiB gets `--scale` of its size. Each recorded
thread is a thread here, and calls come in the order in which they returned. `--pause` rests after
so many calls, as a program does that works on the CPU for a while. `--ballast` is memory that the
program has besides, and that is looked at in the end. Prints one line of JSON; exit code 1 where a
result differs that docs/traces.md does not explain.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import queue
import select
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.traces.driver import Driver
from tests.traces.pack import SIZED
from tests.traces.scene import LOADS, Scene
from tests.traces.signature import plain
from tests.traces.trace import Step, Trace, load

NOT_READY, NO_CONTEXT = 600, 201
PATTERN = 0x5EED0BA1
MEMORY = {*SIZED, "cuMemCreate", "cuStreamCreate", "cuCtxSetCurrent", "cuCtxSynchronize"}
"""calls after which there is a context"""
ENDS = {
    "cuCtxDestroy_v2", "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset",
}  # fmt: skip
"""calls after which that context may be gone"""
CAPTURE_REFUSED, CAPTURE_BROKEN = {900, 906, 907}, {901, 904}
ALLOCATES = {"cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemFree_v2"}
QUERIES = {"cuEventQuery", "cuStreamQuery"}
WAIT_S = 30.0

LEFT_OUT = {
    "cuStreamWaitValue32": "waits for what a kernel or another process writes",
    "cuStreamWaitValue64": "waits for what a kernel or another process writes",
    "cuStreamWaitValue32_v2": "waits for what a kernel or another process writes",
    "cuStreamWaitValue64_v2": "waits for what a kernel or another process writes",
    "cuStreamBatchMemOp": "waits for what a kernel or another process writes",
    "cuStreamBatchMemOp_v2": "waits for what a kernel or another process writes",
    "cuIpcOpenMemHandle": "needs the process that exported it",
    "cuIpcOpenMemHandle_v2": "needs the process that exported it",
    "cuIpcOpenEventHandle": "needs the process that exported it",
    "cuIpcCloseMemHandle": "needs the process that exported it",
    "cuMemImportFromShareableHandle": "needs the process that exported it",
    "cuMemPoolImportFromShareableHandle": "needs the process that exported it",
    "cuMemPoolImportPointer": "needs the process that exported it",
    "cuLinkCreate_v2": "links code for a real GPU",
    "cuLinkAddData_v2": "links code for a real GPU",
    "cuLinkAddFile_v2": "links code for a real GPU",
    "cuLinkComplete": "links code for a real GPU",
    "cuLinkDestroy": "links code for a real GPU",
    "cuGetExportTable": "simgpu has none of NVIDIA's private tables",
}
"""calls that are not done again, and why"""


class Threads:
    """One thread for each of the trace's; one of them works at a time."""

    def __init__(self) -> None:
        self.tasks: dict[int, queue.SimpleQueue[Any]] = {}
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def do(self, thread: int, what: Any, *arguments: Any) -> Any:
        """Have this thread do it, and wait."""
        if thread not in self.tasks:
            self.tasks[thread] = queue.SimpleQueue()
            threading.Thread(target=self.work, args=(self.tasks[thread],), daemon=True).start()
        self.tasks[thread].put((what, arguments))
        result, error = self.done.get()
        if error is not None:
            raise error
        return result

    def work(self, tasks: queue.SimpleQueue[Any]) -> None:
        """What a thread does."""
        while True:
            what, arguments = tasks.get()
            try:
                self.done.put((what(*arguments), None))
            except BaseException as error:
                self.done.put((None, error))


class Replay:
    """One run of a trace."""

    def __init__(self, trace: Trace, driver: Driver, scale: float, ballast_bytes: int = 0) -> None:
        self.ballast_bytes, self.ballast, self.ballast_context = ballast_bytes, 0, 0
        self.ballast_checked = False
        self.trace, self.driver = trace, driver
        self.scene = Scene(trace, driver, scale)
        self.threads = Threads()
        self.calls = 0
        self.left_out: Counter[str] = Counter()
        self.explained: Counter[str] = Counter()
        self.different: list[str] = []
        self.spared = False

    def run(self, pause_s: float, every: int) -> None:
        """All of it."""
        for step in self.trace.steps:
            if plain(step.name) in LEFT_OUT or self.scene.is_absent(step):
                self.left_out[step.name] += 1
                self.scene.leave_out(step)
                continue
            if self.ballast and plain(step.name) in ENDS:
                self.threads.do(-1, self.check_ballast)
            self.threads.do(step.thread, self.one, step)
            self.calls += 1
            if self.ballast_bytes and not self.ballast and step.name in MEMORY and not step.result:
                self.threads.do(step.thread, self.take_ballast)
            if pause_s and step.number % every == every - 1:
                time.sleep(pause_s)  # noqa: TID251 (the program that is replayed computes elsewhere)
        if self.ballast:
            self.threads.do(-1, self.end_ballast)

    def take_ballast(self) -> None:
        """Memory with a pattern in it, in the context that the program uses."""
        self.ballast = self.driver.get("cuMemAlloc_v2", self.ballast_bytes)
        self.driver.call("cuMemsetD32_v2", self.ballast, PATTERN, self.ballast_bytes // 4)
        self.ballast_context = self.driver.get("cuCtxGetCurrent")

    def check_ballast(self) -> None:
        """Every word of it is as it was; gone with its context if the program destroyed that."""
        if self.driver.code("cuCtxSetCurrent", self.ballast_context):
            return
        words = (ctypes.c_uint32 * (self.ballast_bytes // 4))()
        if self.driver.code(
            "cuMemcpyDtoH_v2", ctypes.addressof(words), self.ballast, len(words) * 4
        ):
            return
        if bytes(words) != PATTERN.to_bytes(4, "little") * len(words):
            self.different.append("the ballast is not as it was")
        self.ballast_checked = True

    def end_ballast(self) -> None:
        """Look at it and give it back: the next run takes its own."""
        self.check_ballast()
        if self.driver.code("cuCtxSetCurrent", self.ballast_context) == 0:
            self.driver.code("cuMemFree_v2", self.ballast)

    def one(self, step: Step) -> None:
        """One call, in its thread."""
        result = self.scene.call(step)
        if result == NO_CONTEXT and step.result != NO_CONTEXT:
            # made current by a way that the recorder does not see
            self.explained["context made current"] += 1
            self.driver.call("cuCtxSetCurrent", self.scene.context())
            result = self.scene.call(step)
        if plain(step.name) in QUERIES:
            result = self.asked(step, result)
        if result != step.result and not self.explains(step, result):
            self.different.append(
                f"call {step.number}: {step.name} gave {self.driver.error_name(result)}, "
                f"recorded was {self.driver.error_name(step.result)}"
            )

    def asked(self, step: Step, result: int) -> int:
        """The program went on when it heard that the work was done: so do we."""
        until_s = time.monotonic() + WAIT_S
        while step.result == 0 and result == NOT_READY and time.monotonic() < until_s:
            time.sleep(0.0002)  # noqa: TID251 (as the recorded program, which asks the driver again)
            result = self.scene.call(step)
        if step.result == NOT_READY and result == 0:
            self.explained["done earlier"] += 1
            return NOT_READY
        return result

    def explains(self, step: Step, result: int) -> bool:
        """Differences that say nothing about moiety: simgpu is not the recorded driver."""
        if plain(step.name).startswith("cuGetProcAddress"):
            self.explained["another driver has other functions"] += 1
            return True
        if result and step.result and plain(step.name) in LOADS:
            self.explained["other garbage is refused otherwise"] += 1
            return True
        if result == 0 and step.result in CAPTURE_REFUSED and plain(step.name) in ALLOCATES:
            # the shim allocates without the driver's help, so the capture goes on unharmed
            self.explained["moiety allows it during a capture"] += 1
            self.spared = True
            return True
        if step.result in CAPTURE_BROKEN and result == 0 and self.spared:
            self.explained["moiety allows it during a capture"] += 1
            return True
        if result == 801 and not self.trace.about["recorded"][0].startswith("on simgpu"):
            self.explained[f"simgpu has no {step.name}"] += 1
            return True
        return False

    def outcome(self) -> dict[str, Any]:
        """What came of it."""
        return {
            "calls": self.calls,
            "different": self.different,
            "left_out": dict(self.left_out),
            "explained": dict(self.explained),
            "ballast": self.ballast_bytes if self.ballast else 0,
            "ballast_checked": self.ballast_checked,
        }


def pauses(text: str) -> tuple[float, int]:
    """`20ms:50`."""
    length, _, every = text.partition(":")
    return float(length.removesuffix("ms")) / 1000, int(every)


def is_told() -> bool:
    """Whether somebody closed our input."""
    return bool(select.select([sys.stdin], [], [], 0)[0]) and not sys.stdin.read(1)


def main() -> int:
    """Replay it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("kernels", type=Path, help="simgpu's kernels.elf")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--pause", type=pauses, default=(0.0, 1), metavar="20ms:50")
    parser.add_argument("--ballast", type=int, default=0, metavar="BYTES")
    parser.add_argument(
        "--until-told", action="store_true", help="again and again until the input ends"
    )
    args = parser.parse_args()
    trace = load(args.trace)
    driver = Driver(args.kernels)
    whole: list[dict[str, Any]] = []
    while len(whole) < args.times or (args.until_told and not is_told()):
        replay = Replay(trace, driver, args.scale, args.ballast)
        replay.run(*args.pause)
        whole.append(replay.outcome())
        replay.scene.tidy()
    print(
        json.dumps(
            {
                **whole[0],
                "times": len(whole),
                "different": [d for one in whole for d in one["different"]],
            }
        )
    )
    return 1 if any(one["different"] for one in whole) else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.exit(code)
