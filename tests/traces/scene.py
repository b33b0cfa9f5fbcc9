"""What a replay has made so far: the handle behind each name, and where memory lies now."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence

from tests.traces.driver import Driver
from tests.traces.layout import CONFIG_BYTES
from tests.traces.pack import SIZED
from tests.traces.signature import Parameter, plain, signatures
from tests.traces.trace import FIXED_BYTES, GRANULE, Step, Trace, name, offset

SLOT_BYTES = 4096
"""what a call may write to one of its arguments"""
TOO_MUCH = 1 << 46
OUT_OF_MEMORY = 2
OWN_BYTES = 64 << 20
"""of memory that stands for the program's own; more is made when a copy wants it"""
LOADS = {
    "cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary",
    "cuLibraryLoadData", "cuLibraryLoadFromFile",
}  # fmt: skip
NAMED = {"cuModuleGetFunction", "cuLibraryGetKernel"}
GLOBALS = {"cuModuleGetGlobal_v2", "cuLibraryGetGlobal", "cuLibraryGetManaged"}
LENGTHS = {"bytes", "byte_count", "bytesize", "size", "count", "length", "n"}
"""names of parameters that say how much of a piece of memory is meant"""
ELEMENT = {"cuMemsetD16": 2, "cuMemsetD32": 4}


class Piece:
    """Memory as it was recorded, and as it is here."""

    def __init__(self, at: int, size: int, recorded: int, unit: tuple[int, int] = (0, 0)) -> None:
        self.at, self.size, self.recorded, self.unit = at, size, max(recorded, 1), unit

    def place(self, recorded: int) -> int:
        """Where this offset is."""
        if self.unit[0]:
            whole, rest = divmod(recorded, self.unit[0])
            return whole * self.unit[1] + min(rest, self.unit[1] - 1)
        if self.size == self.recorded:
            return recorded
        return min(recorded * self.size // self.recorded // 256 * 256, self.size)

    def length(self, start: int, recorded: int) -> int:
        """How much of it a length is that begins at this offset."""
        if self.unit[0]:
            return self.place(start + recorded) - self.place(start)
        if self.size == self.recorded:
            return recorded
        return max(min(recorded * self.size // self.recorded, self.size - self.place(start)), 1)


class Scene:
    """The state of one replay."""

    def __init__(self, trace: Trace, driver: Driver, scale: float) -> None:
        self.trace, self.driver, self.scale = trace, driver, scale
        self.handles: dict[str, int] = {}
        self.pieces: dict[str, Piece] = {}
        self.own = mmap.mmap(-1, OWN_BYTES)
        self.registered: dict[str, mmap.mmap] = {}
        self.slots = mmap.mmap(-1, 32 * SLOT_BYTES)
        self.slot_at = ctypes.addressof(ctypes.c_char.from_buffer(self.slots))
        self.own_at = ctypes.addressof(ctypes.c_char.from_buffer(self.own))
        self.kept: list[object] = []
        self.absent: set[str] = set()
        self.absent_ranges: list[tuple[str, int, int]] = []
        self._context = 0

    # ---- handles that nobody saw made ----

    def context(self) -> int:
        """The first device's primary context, for those that were made out of sight."""
        if not self._context:
            self.driver.call("cuInit", 0)
            self._context = self.driver.get("cuDevicePrimaryCtxRetain", 0)
        return self._context

    def missing(self, kind: str) -> int:
        """A handle for a name that the trace never makes; 0 where there can be none."""
        if kind == "CUcontext":
            return self.context()
        ways: dict[str, Callable[[], int]] = {
            "CUstream": lambda: self.driver.get("cuStreamCreate", 1),
            "CUevent": lambda: self.driver.get("cuEventCreate", 0),
            "CUgraph": lambda: self.driver.get("cuGraphCreate", 0),
            "CUmodule": self.module,
            "CUlibrary": self.library,
            "CUfunction": lambda: self.driver.get(
                "cuModuleGetFunction", self.module(), self.text("nop")
            ),
            "CUkernel": lambda: self.driver.get(
                "cuLibraryGetKernel", self.library(), self.text("nop")
            ),
        }
        return ways[kind]() if kind in ways else 0

    def module(self) -> int:
        """simgpu's own kernels."""
        return self.driver.get("cuModuleLoad", ctypes.addressof(self.driver.kernels))

    def library(self) -> int:
        """The same as a library."""
        where = ctypes.addressof(self.driver.kernels)
        return self.driver.get("cuLibraryLoadFromFile", where, 0, 0, 0, 0, 0, 0)

    def text(self, words: str) -> int:
        """The address of a string that stays."""
        buffer = ctypes.create_string_buffer(words.encode())
        self.kept.append(buffer)
        return ctypes.addressof(buffer)

    def handle(self, word: str) -> int:
        """What a name stands for now."""
        if word == "0":
            return 0
        if word in ("legacy", "per-thread"):
            return 1 if word == "legacy" else 2
        if word not in self.handles:
            self.handles[word] = self.missing(word.rstrip("0123456789"))
        return self.handles[word]

    # ---- memory ----

    def smaller(self, size: int, what: str) -> int:
        """The size of a piece of memory here."""
        if size <= FIXED_BYTES or what in self.trace.rigid:
            return size
        return max(int(size * self.scale) // 512 * 512, FIXED_BYTES)

    def unit(self, what: str) -> tuple[int, int]:
        """Of a range of addresses or a chunk: as recorded, and here."""
        recorded = self.trace.mapped_units.get(what, GRANULE)
        here = -(-int(recorded * self.scale) // GRANULE) * GRANULE
        return recorded, max(min(here, recorded), GRANULE)

    def mapped(self, what: str, size: int) -> int:
        """The size of a chunk, or of a range of them."""
        recorded, here = self.unit(what)
        return -(-size // recorded) * here

    def address(self, word: str) -> int:
        """Where a recorded address is now."""
        if word == "0":
            return 0
        if word == "~":
            return self.own_at
        piece = self.pieces.get(name(word))
        return piece.at + piece.place(offset(word)) if piece else TOO_MUCH

    def lengths(self, step: Step, parameters: Sequence[Parameter]) -> dict[int, int]:
        """What the lengths of a call are here: as much as each memory that it names allows."""
        places = [w for w in step.words if w.startswith("m") and name(w) in self.pieces]
        found = {}
        for i, parameter in enumerate(parameters):
            if parameter.pointer or parameter.name not in LENGTHS or not step.words[i].isdigit():
                continue
            recorded = int(step.words[i])
            if places:
                factor = next((f for n, f in ELEMENT.items() if step.name.startswith(n)), 1)
                whole = [self.pieces[name(w)].length(offset(w), recorded * factor) for w in places]
                found[i] = min(whole) // factor or min(recorded, 1)
                self.room(found[i] * factor)
        return found

    def room(self, size: int) -> None:
        """The program's own memory is at least as large."""
        if size > len(self.own):
            self.kept.append(self.own)
            self.own = mmap.mmap(-1, size)
            self.own_at = ctypes.addressof(ctypes.c_char.from_buffer(self.own))

    # ---- one call ----

    def call(self, step: Step) -> int:
        """Do it, and return the result."""
        what = plain(step.name)
        if what == "cuThreadExchangeStreamCaptureMode":
            self.put(0, int(step.words[0]))
            return self.driver.code(step.name, self.slot_at)
        parameters = signatures()[step.name]
        lengths = self.lengths(step, parameters)
        arguments = [
            lengths.get(i, self.argument(i, parameter, step.words[i], step))
            for i, parameter in enumerate(parameters)
        ]
        self.change(step, what, arguments)
        result = self.driver.code(step.name, *arguments)
        if result == 0 and step.result == 0:
            self.remember(step, what, parameters, arguments)
        return result

    def put(self, i: int, value: int) -> int:
        """A slot that holds this number; its address."""
        at = self.slot_at + i * SLOT_BYTES
        ctypes.c_uint64.from_address(at).value = value
        return at

    def argument(self, i: int, parameter: Parameter, word: str, step: Step) -> int:
        """One argument as a word."""
        base = parameter.type.removesuffix("*").strip()
        if word.startswith('"'):
            return self.text(self.named(step, word[1:]))
        if word.startswith("="):
            return self.structure(word, step, base)
        if word.startswith(">"):
            return self.put(i, 0)
        if word.isdigit():
            return int(word)
        if base in ("CUhostFn", "CUstreamCallback", "CUoccupancyB2DSize"):
            return self.driver.nothing
        if word == "~" or word.startswith("m"):
            written = word == "~" and parameter.name in (
                "value",
                "data",
                "handle",
                "shareable_handle",
            )
            return self.put(i, 0) if written else self.address(word)
        return self.handle(word)

    def named(self, step: Step, text: str) -> str:
        """Kernels of other people's modules are ours."""
        if plain(step.name) in NAMED:
            return "nop" if step.result == 0 else "there_is_no_such_kernel"
        return text

    def structure(self, word: str, step: Step, base: str) -> int:
        """Its bytes, with what its names stand for now."""
        image, *parts = word[1:].split(";")
        data = bytearray.fromhex(image)
        for part in parts:
            at, _, what = part.partition(":")
            value = self.driver.nothing if what == "~" else 0
            if what.startswith("m"):
                value = self.address(what)
            elif what != "~":
                value = self.handle(what)
            data[int(at) : int(at) + 8] = value.to_bytes(8, "little")
        buffer = ctypes.create_string_buffer(bytes(data), len(data) + 8)
        self.kept.append(buffer)
        where = ctypes.addressof(buffer)
        if "KERNEL_NODE" in base or (base == "CUgraphNodeParams" and data[:4] == bytes(4)):
            self.no_parameters(where + (16 if base == "CUgraphNodeParams" else 0), step)
        if base.endswith("CUlaunchConfig"):
            if step.result == 0:
                self.one_thread(where)
            attributes = where + CONFIG_BYTES if len(data) > CONFIG_BYTES else 0
            ctypes.c_uint64.from_address(where + 40).value = attributes
        return where

    def no_parameters(self, where: int, step: Step) -> None:
        """A kernel node whose kernel takes nothing."""
        if step.result == 0:
            self.one_thread(where + 8)
        ctypes.c_uint64.from_address(where + 40).value = self.slot_at + 31 * SLOT_BYTES
        ctypes.c_uint64.from_address(where + 48).value = 0

    def one_thread(self, where: int) -> None:
        """Six dimensions of 1: nothing is computed anyway."""
        for i in range(6):
            ctypes.c_uint32.from_address(where + 4 * i).value = 1
        ctypes.c_uint32.from_address(where + 24).value = 0

    def change(self, step: Step, what: str, arguments: list[int]) -> None:
        """Where a replay has to say something else than the program did."""
        words = step.words
        if what in SIZED or what == "cuMemCreate":
            arguments[1] = self.wanted(step, what)
        elif what == "cuMemAllocPitch_v2" and step.result == OUT_OF_MEMORY:
            arguments[3] = TOO_MUCH
        elif what in ("cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemAddressFree"):
            if step.result == 0:
                arguments[1] = self.mapped(name(words[0]), int(words[1]))
            if what == "cuMemMap" and step.result == 0:
                arguments[2] = self.mapped(name(words[0]), int(words[2]))
        elif what in LOADS:
            self.load(step, what, arguments)
        elif what.startswith("cuLaunchKernel") and what != "cuLaunchKernelEx":
            if step.result == 0:
                arguments[1:8] = [1, 1, 1, 1, 1, 1, 0]
            arguments[9] = self.slot_at + 31 * SLOT_BYTES
        elif what == "cuLaunchKernelEx":
            arguments[2:4] = [self.slot_at + 31 * SLOT_BYTES, 0]
        elif what == "cuMemHostRegister_v2" and step.result == 0:
            size = self.smaller(int(words[1]), "")
            memory = mmap.mmap(-1, size)
            self.registered[words[0]] = memory
            arguments[:2] = [ctypes.addressof(ctypes.c_char.from_buffer(memory)), size]
        elif what == "cuPointerGetAttributes":
            asked = (ctypes.c_int * int(words[0]))(*[2] * int(words[0]))
            where = (ctypes.c_uint64 * int(words[0]))(*[self.put(20, 0)] * int(words[0]))
            self.kept += [asked, where]
            arguments[1:3] = [ctypes.addressof(asked), ctypes.addressof(where)]

    def wanted(self, step: Step, what: str) -> int:
        """How much memory to ask for: too much where the recorded program did."""
        size = int(step.words[1])
        if step.result == OUT_OF_MEMORY:
            return TOO_MUCH
        if step.result:
            return size
        if what in ("cuMemCreate", "cuMemAddressReserve"):
            return self.mapped(step.words[0][1:], size)
        return self.smaller(size, step.words[0][1:])

    def load(self, step: Step, what: str, arguments: list[int]) -> None:
        """simgpu's kernels in place of anybody's code, and garbage in place of garbage."""
        loaded = self.driver.image
        if step.result:
            loaded = ctypes.create_string_buffer(b"this is no code", 4096)
            self.kept.append(loaded)
        elif what in ("cuModuleLoad", "cuLibraryLoadFromFile"):
            loaded = self.driver.kernels
        arguments[1] = ctypes.addressof(loaded)
        arguments[2:] = [0] * len(arguments[2:])

    def remember(
        self, step: Step, what: str, parameters: Sequence[Parameter], arguments: Sequence[int]
    ) -> None:
        """What the call made."""
        for i, word in enumerate(step.words):
            if not word.startswith(">") or len(word) == 1:
                continue
            value = ctypes.c_uint64.from_address(self.slot_at + i * SLOT_BYTES).value
            if word[1] != "m":
                self.handles[word[1:]] = value
            elif "+" not in word and self.makes(what):
                unit = self.unit(word[1:]) if what == "cuMemAddressReserve" else (0, 0)
                recorded, size = self.sizes(step, what, arguments)
                self.pieces[word[1:]] = Piece(value, size, recorded, unit)
        if what == "cuMemHostRegister_v2" and step.words[0] in self.registered:
            self.pieces[step.words[0]] = Piece(arguments[0], arguments[1], int(step.words[1]))

    def makes(self, what: str) -> bool:
        """Whether this call makes memory."""
        return what in SIZED or what in GLOBALS or what == "cuMemAllocPitch_v2"

    def sizes(self, step: Step, what: str, arguments: Sequence[int]) -> tuple[int, int]:
        """As recorded, and here."""
        if what in SIZED:
            return int(step.words[1]), arguments[1]
        if what == "cuMemAllocPitch_v2":
            pitch = ctypes.c_uint64.from_address(self.slot_at + SLOT_BYTES).value
            return pitch * arguments[3], pitch * arguments[3]
        return 1, 1

    def leave_out(self, step: Step) -> None:
        """A call that is not done: what it would have made is not there."""
        for word in step.words:
            if word.startswith(">") and len(word) > 1:
                self.absent.add(word[1:])
        if plain(step.name) == "cuMemMap":
            start = offset(step.words[0])
            self.absent_ranges.append((name(step.words[0]), start, start + int(step.words[1])))

    def is_absent(self, step: Step) -> bool:
        """Whether a call needs what a call that was left out would have made."""
        return any(
            name(word) in self.absent
            or any(name(word) == n and start <= offset(word) < end
                   for n, start, end in self.absent_ranges if word.startswith("m"))
            for word in step.words
        )  # fmt: skip

    def tidy(self) -> None:
        """Give back what the program left behind, so that a trace can be done again."""
        self.driver.code("cuCtxSynchronize")
        for word, piece in self.pieces.items():
            if word not in self.trace.reserved and word.startswith("m"):
                self.driver.code("cuMemFree_v2", piece.at)
                self.driver.code("cuMemFreeHost", piece.at)
