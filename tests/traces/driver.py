"""The driver as a replay calls it: every argument a 64-bit word."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

ARGUMENTS = 16
MASK = (1 << 64) - 1


class Driver:
    """libcuda.so.1, by exported names."""

    def __init__(self, kernels: Path) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.kernels = ctypes.create_string_buffer(str(kernels).encode())
        self.image = ctypes.create_string_buffer(kernels.read_bytes())
        self.nothing = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value or 0
        """a function that does nothing with its argument"""
        self.functions: dict[str, Any] = {}

    def function(self, name: str) -> Any:
        """The function; None where the driver has none of this name."""
        if name not in self.functions:
            found = getattr(self.library, name, None)
            if found is not None:
                found.restype = ctypes.c_int
            self.functions[name] = found
        return self.functions[name]

    def code(self, name: str, *arguments: int) -> int:
        """What it returns; 801 (not supported) where there is no such function."""
        function = self.function(name)
        if function is None:
            return 801
        return int(function(*(ctypes.c_uint64(a & MASK) for a in arguments)))

    def call(self, name: str, *arguments: int) -> None:
        """Call it.

        Raises:
            RuntimeError: it failed.
        """
        if code := self.code(name, *arguments):
            raise RuntimeError(f"{name} gave {self.error_name(code)}")

    def get(self, name: str, *arguments: int) -> int:
        """What it writes to its first argument."""
        out = ctypes.c_uint64()
        self.call(name, ctypes.addressof(out), *arguments)
        return out.value

    def error_name(self, code: int) -> str:
        """In words."""
        text = ctypes.c_char_p()
        self.function("cuGetErrorName")(code, ctypes.byref(text))
        return text.value.decode() if text.value else str(code)
