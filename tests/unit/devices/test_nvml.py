"""NVML's answers about GPUs that are lost, by a library that answers as it is told."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.devices.nvml import Nvml


class LostError(Exception):
    """What NVML raises about a GPU that has fallen off the bus."""


class NothingYetError(LostError):
    """What NVML raises when nothing has happened in time."""


class Library:
    """Two GPUs; those in `lost` do not report errors, and the second has one to tell."""

    def __init__(self, *lost: int) -> None:
        self.lost = set(lost)
        self.sets = 0
        self.handles = [ctypes.pointer(ctypes.c_int(index)) for index in range(2)]

    def create(self) -> int:
        self.sets += 1
        return self.sets

    def free(self, events: int) -> None:
        assert events == self.sets
        self.sets -= 1

    def register(self, handle: Any, wanted: int, events: int) -> None:
        assert (wanted, events) == (8, 1)
        if self.handles.index(handle) in self.lost:
            raise LostError("GPU is lost")

    def wait(self, events: int, timeout_ms: int) -> SimpleNamespace:
        assert (events, timeout_ms) == (1, 1000)
        return SimpleNamespace(device=self.handles[1], eventData=48)


def nvml(library: Library) -> Nvml:
    found = Nvml.__new__(Nvml)  # without a driver
    found._errors, found._handles = None, {}
    found._nvml = SimpleNamespace(
        NVMLError=LostError,
        NVMLError_Timeout=NothingYetError,
        nvmlEventTypeXidCriticalError=8,
        nvmlDeviceGetCount=lambda: len(library.handles),
        nvmlDeviceGetHandleByIndex=library.handles.__getitem__,
        nvmlEventSetCreate=library.create,
        nvmlEventSetFree=library.free,
        nvmlDeviceRegisterEvents=library.register,
        nvmlEventSetWait_v2=library.wait,
    )
    return found


def test_a_lost_gpu_keeps_no_errors_of_others_from_being_told() -> None:
    assert nvml(Library(0)).next_error(1.0) == (1, 48)


def test_if_no_gpu_reports_errors_that_is_said_each_time_and_nothing_is_left() -> None:
    library = Library(0, 1)
    found = nvml(library)
    for _ in range(2):
        with pytest.raises(LostError, match="GPU is lost"):
            found.next_error(1.0)
        assert library.sets == 0
    library.lost.clear()
    assert found.next_error(1.0) == (1, 48)
