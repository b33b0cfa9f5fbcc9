"""The form of every event and instruction: frozen, cheap to make, and readable in a file."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

NAMED: Final = "is"
"""Key of the class' name in a document."""


class Recordable(Struct, frozen=True, tag=True, tag_field=NAMED, omit_defaults=True):
    """One event or instruction; a document of it leaves out the fields that have their default."""
