"""Reads a batch script: its interpreter, and the words of its #SBATCH lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from moiety.slurm.errors import JobRefused

DIRECTIVE: Final = "#SBATCH"
ESCAPED: Final = ("'", '"', "\\")
SCRIPT_MAX: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Script:
    """A script that can be run."""

    text: str
    encoding: str
    """utf-8, or latin-1 for bytes that are no UTF-8."""
    interpreter: list[str]
    """The words of its first line: a path, and at most one argument, as the kernel reads it."""
    lines: list[list[str]]
    """The words of each #SBATCH line that counts."""


def read(content: bytes) -> Script:
    """A script; raises JobRefused in Slurm's words."""
    if not content:
        raise JobRefused("Batch script is empty!")
    if not content.strip():
        raise JobRefused("Batch script contains only whitespace!")
    if not content.startswith(b"#!"):
        raise JobRefused(
            "This does not look like a batch script. The first line must start with #! followed "
            "by the path to an interpreter. For instance: #!/bin/sh"
        )
    if b"\r\n" in content:
        raise JobRefused(
            r"Batch script contains DOS line breaks (\r\n) instead of expected UNIX line breaks "
            r"(\n).",
            "dos2unix, or sed -i 's/\\r$//' FILE",
        )
    if b"\0" in content:
        raise JobRefused("The batch script contains a null character")
    if len(content) > SCRIPT_MAX // 2:
        raise JobRefused("Batch job submission failed: the script is larger than 2 MiB")
    encoding = "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        encoding = "latin-1"
        text = content.decode(encoding)
    first, _, rest = text.partition("\n")
    interpreter = first[2:].strip().split(None, 1)
    if not interpreter:
        raise JobRefused("the first line names no interpreter", "#!/bin/bash")
    return Script(text, encoding, interpreter, list(_directives(rest)))


def wrapped(command: str) -> bytes:
    """The script that `--wrap` makes of a command, as Slurm makes it."""
    text = f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n"
    return text.encode("utf-8", "surrogateescape")


def _directives(text: str) -> list[list[str]]:
    """Lines count up to the first that is neither empty nor a comment."""
    found = []
    for line in text.split("\n"):
        if line.startswith(DIRECTIVE):  # what follows without a space counts too, as ever
            if words := split(line[len(DIRECTIVE) :]):
                found.append(words)
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return found


def split(text: str) -> list[str]:
    """Words with quotes and backslashes; an unquoted # ends the line."""
    words: list[str] = []
    word, is_open, quote = "", False, ""
    at = 0
    while at < len(text):
        letter = text[at]
        at += 1
        if letter == "\\" and text[at : at + 1] in ESCAPED:
            word += text[at]
            at += 1
        elif quote:
            if letter == quote:
                quote = ""
            else:
                word += letter
        elif letter in "'\"":
            quote, is_open = letter, True
        elif letter == "#":
            break
        elif re.match(r"\s", letter):
            if is_open or word:
                words.append(word)
            word, is_open = "", False
        else:
            word += letter
    if quote:
        raise JobRefused(f"Unmatched `{quote}` in [{text.strip()[:80]}]")
    if is_open or word:
        words.append(word)
    return words
