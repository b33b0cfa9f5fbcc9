"""The names of a job's files: Slurm's patterns as the pool reads them."""

from __future__ import annotations

import re
from typing import Final

PATTERN: Final = re.compile(r"%(%|(\d{0,9})([A-Za-z]))")
KEPT: Final = "jAax"
"""The pool fills these in when it knows them."""


def pool_pattern(text: str, host: str, user: str, is_array: bool) -> str:
    """A pattern for the pool: %j %A %a %x stay, others are filled in, and %% is a per cent sign."""
    if "\\" in text:  # Slurm takes such a name as it is, without the backslash
        return text.replace("\\", "").replace("%", "%%")
    fixed = {"N": host, "n": "0", "t": "0", "s": "batch", "u": user}

    def filled(found: re.Match[str]) -> str:
        if found[1] == "%":
            return "%%"
        width, letter = found[2], found[3]
        if letter in KEPT:
            if letter == "a" and not is_array:
                return "4294967294"  # as Slurm has it where there is no array
            return found[0]
        if letter == "J":
            return f"%{width}j"
        if letter in fixed:
            value = fixed[letter].replace("%", "%%")
            is_number = value.isdecimal()
            return value.zfill(min(int(width), 10)) if width and is_number else value
        return f"%{found[0]}"

    return PATTERN.sub(filled, text)


def files_of(output: str, error: str, is_array: bool, host: str, user: str) -> tuple[str, str]:
    """The patterns of its output and of its errors; empty: where the output goes."""
    output = output or ("slurm-%A_%a.out" if is_array else "slurm-%j.out")
    return tuple(  # type: ignore[return-value]
        pool_pattern(each, host, user, is_array) if each else "" for each in (output, error)
    )
