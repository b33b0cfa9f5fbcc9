"""The layouts of the protocol as `struct` has them: how bytes are packed, where fields begin."""

from __future__ import annotations

import struct
from typing import Final

from moiety.wire.layout import LAYOUTS


def packer(name: str) -> struct.Struct:
    """The `struct` of one layout; reserved bytes are written as zero and ignored when read."""
    return struct.Struct("<" + "".join(code for _, code in LAYOUTS[name]))


def offsets(name: str) -> dict[str, int]:
    """Where each field of one layout begins, in bytes."""
    found: dict[str, int] = {}
    codes = "<"
    for field, code in LAYOUTS[name]:
        found[field] = struct.calcsize(codes)
        codes += code
    return found


COUNTERS_BYTES: Final = packer("mw_counters").size
"""Size of the memfd with a client's counters."""
