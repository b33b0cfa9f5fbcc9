"""The real `Devices`: NVIDIA's management library, or simgpu's stand-in for it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from moiety.devices.gpu_models import Card, card_of
from moiety.devices.interface import Device, GpuProcess, Usage
from moiety.devices.links import links_of
from moiety.devices.native import is_simulated, simgpu_dir
from moiety.devices.telemetry import Telemetry, read

LIBRARY = "libnvidia-ml.so.1"
SENTENCE_MAX = 500
PROCESS_CALLS = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2",
)
"""Drivers before 510 have only the older call; the name without a version needs the newest."""
MPS_CALLS = (
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
)


class NvmlUnavailable(Exception):
    """NVML cannot be loaded or started; the text says why."""


class Nvml:
    """The GPUs that NVML reports."""

    def __init__(self) -> None:
        if is_simulated():
            _load_stand_in()
        try:
            import pynvml  # type: ignore[import-untyped]  # it has no stubs
        except ImportError:
            raise NvmlUnavailable("the Python package nvidia-ml-py is not installed") from None
        self._nvml: Any = pynvml
        self._errors: Any = None
        self._handles: dict[int, int] = {}
        """Index by the address of NVML's handle, of the GPUs whose errors are reported."""
        self.unreadable: dict[int, str] = {}
        with _overheard() if is_simulated() else nullcontext(str) as words:
            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError as error:
                raise NvmlUnavailable(words() or f"NVML does not start: {error}") from None

    @property
    def driver_version(self) -> str:
        """The version of the kernel driver."""
        return _text(self._nvml.nvmlSystemGetDriverVersion())

    def inventory(self) -> list[Device]:
        """Every GPU that answers, by index; a lost one does not."""
        self.unreadable = {}
        found = []
        for index in range(self._nvml.nvmlDeviceGetCount()):
            try:
                found.append(self._device(index))
            except self._nvml.NVMLError as error:
                self.unreadable[index] = str(error)
        handles = {each.index: self._nvml.nvmlDeviceGetHandleByIndex(each.index) for each in found}
        links = links_of(self._optional, handles)
        return [replace(device, links=links[device.index]) for device in found]

    def cards(self) -> list[Card]:
        """The properties of every GPU, by index."""
        found = []
        for device in self.inventory():
            handle = self._nvml.nvmlDeviceGetHandleByIndex(device.index)
            known = Card(device.index, device.uuid, device.name, device.total_bytes)
            card = card_of(self._optional, _text, known, handle)
            found.append(replace(card, numa_node=device.numa_node))
        return found

    def usage(self, index: int) -> Usage:
        """The present use of one GPU."""
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
        processes: dict[int, int] = {}
        for process in self._first_of(PROCESS_CALLS, handle):
            if process.usedGpuMemory is not None:
                known = processes.get(process.pid, 0)
                processes[process.pid] = known + int(process.usedGpuMemory)
        return Usage(
            used_bytes=int(memory.used),
            utilisation=self.utilisation(index),
            processes=processes,
        )

    def utilisation(self, index: int) -> float | None:
        """The part of the last moments in which one GPU worked; None: it does not say."""
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        rates = self._optional("nvmlDeviceGetUtilizationRates", handle)
        return rates.gpu / 100 if rates is not None else None

    def telemetry(self, index: int) -> Telemetry:
        """The sensors of one GPU; a value that it does not have is None."""
        return read(self._optional, self._nvml.nvmlDeviceGetHandleByIndex(index))

    def users(self, index: int, since_us: int) -> list[GpuProcess]:
        """Every process that computes on a GPU; a process with several contexts counts once."""
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        running = [(each, False) for each in self._first_of(PROCESS_CALLS, handle, must=True)]
        running += [(each, True) for each in self._first_of(MPS_CALLS, handle)]
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(handle, since_us)
        except self._nvml.NVMLError as error:
            # not found: no process has worked since then
            known = error.value == self._nvml.NVML_ERROR_NOT_FOUND
            samples = [] if known else None
        busy: dict[int, list[float]] = {}
        for sample in samples or []:
            if sample.timeStamp > since_us:
                busy.setdefault(sample.pid, []).append(sample.smUtil / 100)
        found: dict[int, GpuProcess] = {}
        for process, of_mps in running:
            used, before = process.usedGpuMemory, found.get(process.pid)
            if before is not None and of_mps and not before.of_mps:
                found[process.pid] = replace(before, of_mps=True)  # in both lists
                continue
            if before is not None and before.used_bytes is not None:
                used = before.used_bytes + (used or 0)
            own = busy.get(process.pid, [0.0])
            worked = None if samples is None else sum(own) / len(own)
            found[process.pid] = GpuProcess(
                process.pid, None if used is None else int(used), worked, of_mps
            )
        return list(found.values())

    def next_error(self, timeout_s: float) -> tuple[int, int] | None:
        """The next error of any GPU. Waits in one thread at most; raises what NVML raises."""
        nvml = self._nvml
        if self._errors is None:
            self._errors = self._listening()
        try:
            data = nvml.nvmlEventSetWait_v2(self._errors, int(timeout_s * 1000))
        except nvml.NVMLError_Timeout:
            return None
        index = self._handles.get(_address(data.device), -1)
        return (index, int(data.eventData)) if index >= 0 else None

    def _listening(self) -> Any:
        """The events of all GPUs that report errors; raises what NVML raises if none does."""
        nvml, problem = self._nvml, None
        count = nvml.nvmlDeviceGetCount()
        events = nvml.nvmlEventSetCreate()
        for index in range(count):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
            except nvml.NVMLError as error:  # it is lost, or does not report errors
                problem = error
            else:
                self._handles[_address(handle)] = index
        if problem is not None and not self._handles:
            nvml.nvmlEventSetFree(events)
            raise problem
        return events

    def close(self) -> None:
        """Close the library, unless a thread may still wait in it."""
        if self._errors is None:
            self._nvml.nvmlShutdown()

    def _device(self, index: int) -> Device:
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        mode = self._optional("nvmlDeviceGetComputeMode", handle)
        mig = self._optional("nvmlDeviceGetMigMode", handle)
        persistent = self._optional("nvmlDeviceGetPersistenceMode", handle)
        return Device(
            index=index,
            uuid=_text(self._nvml.nvmlDeviceGetUUID(handle)),
            name=_text(self._nvml.nvmlDeviceGetName(handle)),
            total_bytes=int(self._nvml.nvmlDeviceGetMemoryInfo(handle).total),
            exclusive=mode == self._nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
            prohibited=mode == self._nvml.NVML_COMPUTEMODE_PROHIBITED,
            mig=bool(mig and mig[0]),
            persistent=None if persistent is None else bool(persistent),
            numa_node=_numa_node(self._optional("nvmlDeviceGetPciInfo", handle)),
        )

    def _first_of(self, calls: Sequence[str], handle: Any, *, must: bool = False) -> list[Any]:
        """The answer of the first of these calls that works here; [] if none works.

        `must`: raise if a call exists and does not answer: no answer does not mean no process.
        """
        nvml = self._nvml
        absent = (nvml.NVML_ERROR_FUNCTION_NOT_FOUND, nvml.NVML_ERROR_NOT_SUPPORTED)
        for call in calls:
            try:
                return list(getattr(nvml, call)(handle))
            except nvml.NVMLError as error:
                if must and error.value not in absent:
                    raise
        return []

    def _optional(self, call: str, *arguments: Any) -> Any:
        """The answer of a call; None if the card or the library does not have the call."""
        try:
            return getattr(self._nvml, call)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None


@contextmanager
def _overheard() -> Iterator[Callable[[], str]]:
    """Captures stderr: simgpu writes there why a card is invalid, for which NVML has no code."""
    kept, said = os.dup(2), os.memfd_create("said")
    os.dup2(said, 2)
    try:
        yield lambda: os.pread(said, SENTENCE_MAX, 0).decode(errors="replace").strip(" .\n")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(said)


def _load_stand_in() -> None:
    """Load simgpu's NVML first: the loader then finds it under its name when pynvml asks."""
    folder = simgpu_dir()
    if folder is None:
        raise NvmlUnavailable("MOIETY_SIMGPU is set but simgpu is not there")
    try:
        ctypes.CDLL(str(folder / LIBRARY), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise NvmlUnavailable(f"simgpu's NVML does not load: {error}") from None


def _numa_node(pci: Any) -> int | None:
    """The NUMA node of a card, from the kernel, by its bus id such as 00000000:65:00.0."""
    if pci is None:
        return None
    try:
        bus = _text(pci.busId).lower()[-12:]
        found = int(Path(f"/sys/bus/pci/devices/{bus}/numa_node").read_text())
    except (OSError, ValueError):
        return None
    return found if found >= 0 else None


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
