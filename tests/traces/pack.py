"""Makes a trace of a recording: handles and addresses get names, what decides nothing goes.

    python -m tests.traces.pack RECORDING TRACE.calls.xz ["where it was recorded"]

docs/traces.md says what stands in a trace. A handle is named for its kind and the order in which
handles of this kind came (`CUstream2`); an address for the memory that it lies in (`m3+4096`).
"""

from __future__ import annotations

import lzma
import sys
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.traces.layout import ADDRESS, DROP, places, without_unsafe_attributes
from tests.traces.recording import Argument, Call, calls
from tests.traces.signature import Parameter, plain, signatures

HANDLES = {
    "CUcontext", "CUmodule", "CUfunction", "CUkernel", "CUlibrary", "CUstream", "CUevent",
    "CUgraph", "CUgraphExec", "CUgraphNode", "CUmemoryPool", "CUarray", "CUmipmappedArray",
    "CUuserObject", "CUlinkState", "CUmemGenericAllocationHandle",
}  # fmt: skip
FUNCTIONS = {"CUhostFn", "CUstreamCallback", "CUoccupancyB2DSize"}
RESERVED = {"CUstream": {1: "legacy", 2: "per-thread"}}
SIZED = {
    "cuMemAlloc_v2": ("dptr", "bytesize"),
    "cuMemAllocManaged": ("dptr", "bytesize"),
    "cuMemAllocAsync": ("dptr", "bytesize"),
    "cuMemAllocFromPoolAsync": ("dptr", "bytesize"),
    "cuMemAddressReserve": ("ptr", "size"),
    "cuMemHostAlloc": ("pp", "bytesize"),
    "cuMemAllocHost_v2": ("pp", "bytesize"),
}
"""what makes memory: the first parameter is where its address goes, the second its size"""
FREES = {
    "cuMemFree_v2", "cuMemFreeAsync", "cuMemAddressFree", "cuMemFreeHost", "cuMemHostUnregister",
    "cuIpcCloseMemHandle",
}  # fmt: skip


class Memory:
    """The living allocations by address."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.pieces: dict[int, tuple[str, int]] = {}
        self.made = 0
        self.now_bytes = self.most_bytes = 0

    def make(self, at: int, size: int, *, counts: bool) -> str:
        """New memory; whatever was there is gone."""
        for start in [s for s in self.starts if at <= s < at + max(size, 1)]:
            self.drop(start)
        name, self.made = f"m{self.made}", self.made + 1
        insort(self.starts, at)
        self.pieces[at] = (name, size if counts else -size)
        self.take(size if counts else 0)
        return name

    def take(self, size: int) -> None:
        """So much more device memory is in use."""
        self.now_bytes += size
        self.most_bytes = max(self.most_bytes, self.now_bytes)

    def drop(self, at: int) -> None:
        """Memory that begins here is gone."""
        if at in self.pieces:
            self.now_bytes -= max(self.pieces.pop(at)[1], 0)
            self.starts.remove(at)

    def name(self, address: int) -> str | None:
        """`m3+16`, `m3`, or nothing."""
        i = bisect_right(self.starts, address) - 1
        if i < 0:
            return None
        name, size = self.pieces[self.starts[i]]
        offset = address - self.starts[i]
        if offset > abs(size) or (offset == abs(size) and offset):
            return None
        return f"{name}+{offset}" if offset else name


class Names:
    """The names that were given so far."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.handles: dict[tuple[str, int], str] = {}
        self.counts: Counter[str] = Counter()

    def new(self, kind: str, value: int) -> str:
        """A handle that a call made."""
        if value in RESERVED.get(kind, {}) or not value:
            return self.known(kind, value)
        if kind in ("CUcontext", "CUmemoryPool", "CUfunction", "CUkernel", "CUmodule"):
            # asked for again and again: the same one
            return self.known(kind, value)
        self.handles.pop((kind, value), None)
        return self.known(kind, value)

    def known(self, kind: str, value: int) -> str:
        """A handle that a call uses; it gets a name where nobody saw it made."""
        if not value:
            return "0"
        if special := RESERVED.get(kind, {}).get(value):
            return special
        if (kind, value) not in self.handles:
            self.handles[kind, value] = f"{kind}{self.counts[kind]}"
            self.counts[kind] += 1
        return self.handles[kind, value]

    def address(self, value: int) -> str:
        """`m3+16`; `~` where it is the program's own memory; `0`."""
        return self.memory.name(value) or "~" if value else "0"


def structure(kind: str, image: bytes, names: Names) -> str:
    """The bytes, and behind them what lies where: `=00ff;8:m3+16`."""
    if kind == "CUlaunchConfig":
        image = without_unsafe_attributes(image)
    said, blank = [], bytearray(image)
    for at, what in places(kind, image).items():
        if at + 8 > len(image):
            continue
        value = int.from_bytes(image[at : at + 8], "little")
        blank[at : at + 8] = bytes(8)
        if value and what != DROP:
            name = names.address(value) if what == ADDRESS else names.known(what, value)
            said.append(f";{at}:{name}")
        elif value:
            said.append(f";{at}:~")
    return "=" + blank.hex() + "".join(said)


def word(parameter: Parameter, argument: Argument, names: Names, result: int) -> str:
    """One argument as it stands in a trace."""
    base = parameter.type.removesuffix("*").strip().removeprefix("const ").strip()
    if argument.text is not None:
        return '"' + argument.text
    if argument.bytes is not None:
        return structure(base, argument.bytes, names)
    if not parameter.pointer:
        if base in FUNCTIONS:
            return "~" if argument.value else "0"
        if base in HANDLES:
            return names.known(base, argument.value)
        if base == "CUdeviceptr":
            return names.address(argument.value)
        return str(argument.value)
    if not argument.value:
        return "0"
    if argument.out is not None and base in HANDLES:
        return ">" + names.new(base, argument.out)
    if argument.out is not None and result == 0 and base in ("CUdeviceptr", "void *"):
        return ">" + names.address(argument.out)
    if parameter.type in ("void *", "const void *"):
        return names.address(argument.value)
    return ">"


def note_memory(call: Call, names: Names) -> None:
    """What a call makes or frees."""
    name = plain(call.name)
    if call.result != 0:
        return
    values = call.arguments
    if name in SIZED:
        counts = name not in ("cuMemAddressReserve", "cuMemHostAlloc", "cuMemAllocHost_v2")
        names.memory.make(values[0].out or 0, values[1].value, counts=counts)
    elif name == "cuMemAllocPitch_v2":
        size = (values[1].out or values[2].value) * values[3].value
        names.memory.make(values[0].out or 0, size, counts=True)
    elif name == "cuMemHostRegister_v2":
        names.memory.make(values[0].value, values[1].value, counts=False)
    elif name in ("cuModuleGetGlobal_v2", "cuLibraryGetGlobal", "cuLibraryGetManaged"):
        if values[0].out and names.memory.name(values[0].out) is None:
            names.memory.make(values[0].out, values[1].out or 4, counts=False)
    elif name in ("cuIpcOpenMemHandle_v2", "cuIpcOpenMemHandle"):
        names.memory.make(values[0].out or 0, 1 << 40, counts=False)
    elif name == "cuGraphAddMemAllocNode" and values[4].bytes:
        image = values[4].bytes
        at = int.from_bytes(image[112:120], "little")
        names.memory.make(at, int.from_bytes(image[104:112], "little"), counts=True)


def note_freed(call: Call, names: Names) -> None:
    """Memory that is gone when the call has returned."""
    name = plain(call.name)
    if call.result == 0 and name in FREES and call.arguments[0].value:
        names.memory.drop(call.arguments[0].value)


def lines(recording: Path, remarks: list[tuple[str, str]], names: Names) -> Iterator[str]:
    """The calls as they stand in a trace."""
    table = signatures()
    chunks: dict[str, int] = {}
    for call in calls(recording, remarks):
        if call.name not in table:
            remarks.append(("unknown", call.name))
            continue
        parameters = table[call.name]
        if plain(call.name) == "cuThreadExchangeStreamCaptureMode":
            words = [str(call.arguments[0].value)]  # what went in; what came out is not compared
        else:
            note_memory(call, names)
            words = [
                word(p, a, names, call.result)
                for p, a in zip(parameters, call.arguments, strict=True)
            ]
        note_freed(call, names)
        if plain(call.name) == "cuMemCreate" and call.result == 0:
            chunks[words[0][1:]] = call.arguments[1].value
            names.memory.take(call.arguments[1].value)
        elif plain(call.name) == "cuMemRelease" and call.result == 0:
            names.memory.take(-chunks.pop(words[0], 0))
        yield " ".join((str(call.after_us), str(call.thread), call.name, str(call.result), *words))


def pack(recording: Path, out: Path, where: str) -> str:
    """Write the trace, and say how large it is."""
    remarks: list[tuple[str, str]] = []
    names = Names()
    body = list(lines(recording, remarks, names))
    unseen = sorted({text for word_, text in remarks if word_ in ("unseen", "unknown")})
    program = next((text for word_, text in remarks if word_ == "program"), "?")
    head = [
        "# trace 1",
        f"# recorded {where}",
        f"# program {program}",
        f"# memory {names.memory.most_bytes}",
        *(f"# unseen {name}" for name in unseen),
    ]
    text = "\n".join([*head, *body]) + "\n"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(lzma.compress(text.encode(), preset=9))
    return f"{len(body)} calls, {out.stat().st_size} bytes"


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    print(pack(Path(sys.argv[1]), Path(sys.argv[2]), " ".join(sys.argv[3:]) or "nobody said where"))
