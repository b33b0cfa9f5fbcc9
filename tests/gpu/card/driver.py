"""The driver and its management library through ctypes, with nothing but their documented calls."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MIB = 1 << 20
GIB = 1 << 30
PTX = Path(__file__).resolve().parents[1] / "kernels.ptx"
NOT_READY = 600
DISABLE_TIMING = 2
NON_BLOCKING = 1
POSIX_FD = 1
MASK = (1 << 64) - 1


class CudaError(RuntimeError):
    """A call of the driver that failed."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {name} ({code})")
        self.code = code


class Location(ctypes.Structure):
    """CUmemLocation; type 1 is a device, 2 the host, 3 a NUMA node of it."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class Flags(ctypes.Structure):
    """CUmemAllocationProp.allocFlags."""

    _fields_ = (
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )


class Prop(ctypes.Structure):
    """CUmemAllocationProp; type 1 is pinned, the only one."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", Location),
        ("windows", ctypes.c_void_p),
        ("flags", Flags),
    )


class Access(ctypes.Structure):
    """CUmemAccessDesc; 3 is reading and writing."""

    _fields_ = (("location", Location), ("flags", ctypes.c_int))


def chunk_prop(device: int, handles: int = 0, rdma: int = 0) -> Prop:
    """Memory of a device, as moiety's shim asks for it."""
    return Prop(1, handles, Location(1, device), None, Flags(0, rdma))


class Driver:
    """libcuda.so.1; calls by the names that it exports, with the version in them."""

    def __init__(self) -> None:
        """Load the library.

        Raises:
            OSError: there is none.
        """
        self.library = ctypes.CDLL("libcuda.so.1")
        self.functions: dict[str, Any] = {}

    def function(self, name: str) -> Any:
        """The function; AttributeError when the driver has none of this name."""
        if name not in self.functions:
            self.functions[name] = getattr(self.library, name)
            self.functions[name].restype = ctypes.c_int
        return self.functions[name]

    def has(self, name: str) -> bool:
        """Whether the driver exports the name."""
        try:
            return self.function(name) is not None
        except AttributeError:
            return False

    def address(self, name: str) -> int:
        """Where the function lies."""
        return ctypes.cast(self.function(name), ctypes.c_void_p).value or 0

    def code(self, name: str, *arguments: Any) -> int:
        """Call it and return what it returns; every integer travels as 64 bits."""
        function = self.function(name)
        return int(
            function(*(ctypes.c_uint64(a & MASK) if isinstance(a, int) else a for a in arguments))
        )

    def call(self, name: str, *arguments: Any) -> None:
        """Call it.

        Raises:
            CudaError: it failed.
        """
        code = self.code(name, *arguments)
        if code:
            raise CudaError(name, code, self.error_name(code))

    def error_name(self, code: int) -> str:
        """The name of an error."""
        text = ctypes.c_char_p()
        self.function("cuGetErrorName")(code, ctypes.byref(text))
        return text.value.decode() if text.value else "unknown"

    def get(self, name: str, *arguments: Any) -> int:
        """A call whose first argument is where it writes one 64-bit number, or less."""
        out = ctypes.c_uint64()
        self.call(name, ctypes.byref(out), *arguments)
        return out.value

    def get_last(self, name: str, *arguments: Any) -> int:
        """As `get`, where that argument is the last one."""
        out = ctypes.c_uint64()
        self.call(name, *arguments, ctypes.byref(out))
        return out.value

    # What nearly every measurement needs

    def start(self, device: int = 0) -> int:
        """cuInit, and the device's primary context made current."""
        self.call("cuInit", 0)
        context = self.get("cuDevicePrimaryCtxRetain", device)
        self.call("cuCtxSetCurrent", context)
        return context

    def name(self, device: int = 0) -> str:
        """The device's name; simgpu's end in (simgpu)."""
        text = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", text, 128, device)
        return text.value.decode()

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        total = ctypes.c_uint64()
        free = self.get("cuMemGetInfo_v2", ctypes.byref(total))
        return free, total.value

    def stream(self) -> int:
        """A stream that does not wait for the legacy one."""
        return self.get("cuStreamCreate", NON_BLOCKING)

    def event(self, *, timed: bool = False) -> int:
        """An event."""
        return self.get("cuEventCreate", 0 if timed else DISABLE_TIMING)

    def elapsed_ms(self, first: int, last: int) -> float:
        """Between two timed events that are done."""
        out = ctypes.c_float()
        name = "cuEventElapsedTime_v2" if self.has("cuEventElapsedTime_v2") else ""
        self.call(name or "cuEventElapsedTime", ctypes.byref(out), first, last)
        return out.value

    def sync(self, stream: int = 0) -> None:
        """Wait for a stream, or for all of the context."""
        if stream:
            self.call("cuStreamSynchronize", stream)
        else:
            self.call("cuCtxSynchronize")

    @contextmanager
    def device_memory(self, size: int) -> Iterator[int]:
        """An ordinary allocation."""
        at = self.get("cuMemAlloc_v2", size)
        try:
            yield at
        finally:
            self.call("cuMemFree_v2", at)

    @contextmanager
    def pinned(self, size: int) -> Iterator[int]:
        """Host memory from the driver."""
        at = self.get("cuMemHostAlloc", size, 1)
        try:
            yield at
        finally:
            self.call("cuMemFreeHost", at)

    @contextmanager
    def chunks(
        self, size: int, count: int, *, sync: bool = True
    ) -> Iterator[tuple[int, list[int]]]:
        """A range of addresses with `count` chunks of `size` bytes behind it, all accessible."""
        prop, access = chunk_prop(0), Access(Location(1, 0), 3)
        base = self.get("cuMemAddressReserve", size * count, 0, 0, 0)
        handles: list[int] = []
        try:
            for i in range(count):
                handles.append(self.get("cuMemCreate", size, ctypes.byref(prop), 0))
                self.call("cuMemMap", base + i * size, size, 0, handles[-1], 0)
            self.call("cuMemSetAccess", base, size * count, ctypes.byref(access), 1)
            yield base, handles
        finally:
            if sync:
                self.code("cuCtxSynchronize")
            for i, handle in enumerate(handles):
                self.code("cuMemUnmap", base + i * size, size)
                self.code("cuMemRelease", handle)
            self.code("cuMemAddressFree", base, size * count)

    # Kernels

    def kernels(self) -> dict[str, int]:
        """The functions of kernels.ptx; on simgpu, which takes no PTX, those of its kernels.elf."""
        beside = Path(os.path.dirname(loaded("libcuda.so"))) / "kernels.elf"
        module = self.get("cuModuleLoad", bytes(beside if beside.exists() else PTX))
        names = ("nop", "spin_us", "touch_u64")
        return {n: self.get("cuModuleGetFunction", module, n.encode()) for n in names}

    def launch(self, kernel: int, arguments: tuple[int, ...] = (), stream: int = 0, *,
               blocks: int = 1, rows: int = 1, threads: int = 1) -> None:  # fmt: skip
        """A kernel whose parameters are all 64-bit numbers."""
        values = [ctypes.c_uint64(a) for a in arguments]
        pointers = (ctypes.c_void_p * (len(values) or 1))(*map(ctypes.addressof, values))
        self.call(
            "cuLaunchKernel", kernel, blocks, rows, 1, threads, 1, 1, 0, stream,
            ctypes.byref(pointers), None,
        )  # fmt: skip


class Nvml:
    """libnvidia-ml.so.1, for one device."""

    def __init__(self, device: int = 0) -> None:
        """Load and start it.

        Raises:
            OSError: there is none, or it does not start.
        """
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        if code := self.library.nvmlInit_v2():
            raise OSError(f"nvmlInit_v2 failed with error {code}")
        self.device = ctypes.c_void_p()
        self.library.nvmlDeviceGetHandleByIndex_v2(device, ctypes.byref(self.device))

    def number(self, name: str, *arguments: Any) -> int | None:
        """What nvmlDeviceGet<name> writes; None where it does not know."""
        out = ctypes.c_uint64()
        function = getattr(self.library, f"nvmlDeviceGet{name}", None)
        if function is None or function(self.device, *arguments, ctypes.byref(out)):
            return None
        return out.value

    def memory(self) -> dict[str, int]:
        """Total, free and used bytes."""
        out = (ctypes.c_uint64 * 3)()
        if code := self.library.nvmlDeviceGetMemoryInfo(self.device, out):
            raise OSError(f"nvmlDeviceGetMemoryInfo failed with error {code}")
        return dict(zip(("total", "free", "used"), out, strict=True))

    def driver_version(self) -> str:
        """As nvidia-smi shows it."""
        text = ctypes.create_string_buffer(96)
        self.library.nvmlSystemGetDriverVersion(text, 96)
        return text.value.decode()


def loaded(name: str) -> str:
    """The path of the loaded library whose file name begins with `name`; empty: not loaded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if path and os.path.basename(path).startswith(name):
            return "/" + path
    return ""
