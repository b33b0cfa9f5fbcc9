"""What `moiety doctor` says of one thing that it looked at."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. `level` is ok, warn or bad; `hint` says what to do."""

    about: str
    level: str
    text: str
    hint: str = ""
