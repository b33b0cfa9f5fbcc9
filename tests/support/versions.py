"""Copies of this tree that pass for other versions of moiety."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import moiety
from moiety.wire.layout import VERSION

SOURCE = Path(moiety.__file__).parent


def other_version(
    folder: Path, product: str, *, protocol: int = VERSION, attached: str = "as here"
) -> str:
    """A PYTHONPATH with a copy of moiety of another version, which speaks another protocol.

    `attached`: its `mw_attached` is `longer` or `shorter` by a field at the end.
    """
    copy = shutil.copytree(SOURCE, folder / product / "moiety", ignore=_left_out)
    _replace(copy / "version.py", r'__version__ = ".*"', f'__version__ = "{product}"')
    layout = copy / "wire" / "layout.py"
    _replace(layout, r"^VERSION: Final = \d+", f"VERSION: Final = {protocol}")
    least = max(1, protocol - 1)
    _replace(layout, r"^VERSION_LEAST: Final = \d+", f"VERSION_LEAST: Final = {least}")
    if attached == "longer":
        _replace(layout, r'(\("others_bytes", "Q"\),)', r'\1 ("reserved", "8x"),')
    if attached == "shorter":
        _replace(layout, r'\("others_bytes", "Q"\),', "")
        _replace(copy / "wire" / "messages.py", "^    others_bytes: int = 0", "")
        _replace(copy / "agent" / "core" / "executor.py", "others_bytes=beside or 0,", "")
    found = os.environ.get("PYTHONPATH", "").split(":")
    return ":".join([str(copy.parent), *(each for each in found if each)])


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Compiled files of Python, and the native libraries of an installed package."""
    del folder
    return {"__pycache__", "_native"} & set(names)


def _replace(file: Path, pattern: str, text: str) -> None:
    changed, count = re.subn(pattern, text, file.read_text(), flags=re.MULTILINE)
    assert count == 1
    file.write_text(changed)
