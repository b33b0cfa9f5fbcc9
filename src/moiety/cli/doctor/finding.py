"""One finding of `moiety doctor`."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """The result of one check. `level` is ok, warn or bad; `hint` says what to do."""

    about: str
    level: str
    text: str
    hint: str = ""
