"""The environment in which a program is shared: the shim first, and the agent's socket."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moiety.devices.elf import needed
from moiety.devices.native import is_simulated

SANITIZER: Final = r"lib(clang_rt\.)?(asan|tsan|lsan|msan|ubsan)[\w.-]*\.so[\d.]*"
"""Runtimes that end the program unless the loader takes them first."""


def shared(
    environment: Mapping[str, str], shim: Path, driver: Path, socket: str, program: str
) -> dict[str, str]:
    """The environment in which a program is shared."""
    changed = dict(environment)
    changed["LD_PRELOAD"] = preloaded(str(shim), program, environment.get("LD_PRELOAD", ""))
    changed["MOIETY_SOCKET"] = socket
    if is_simulated():
        paths = [p for p in environment.get("LD_LIBRARY_PATH", "").split(":") if p]
        stand_in = str(driver.parent)
        changed["LD_LIBRARY_PATH"] = ":".join([stand_in, *(p for p in paths if p != stand_in)])
    return changed


def preloaded(shim: str, program: str, before: str) -> str:
    """LD_PRELOAD for a program: the shim, and the libraries that were in it `before`.

    Runtimes of sanitizers come first, also the program's own, because they insist on it.
    """
    others = [part for part in before.replace(":", " ").split() if part != shim]
    try:
        own = [name for name in needed(program) if re.fullmatch(SANITIZER, name)]
    except OSError:
        own = []
    first = [part for part in others if re.fullmatch(SANITIZER, Path(part).name)]
    known = {Path(part).name for part in first}
    first += [name for name in own if name not in known]
    return ":".join([*first, shim, *(part for part in others if part not in first)])
