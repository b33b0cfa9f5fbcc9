"""The parts of a page that can be tried: commands with what they print, and files.

A fenced block of `console` has lines that begin with `$ ` (and `> ` where a command goes on), and
after each what it prints. `...` stands for anything, in a line or for whole lines. A comment
directly above a block says what is special about it:

    <!-- exit: 1 -->            what its last command ends with, instead of 0
    <!-- not run: REASON -->    it is not tried
    <!-- file: NAME -->         it is no command, but the content of a file
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
COMMENT: Final = re.compile(r"^<!-- (exit|not run|file): (.+) -->$")


@dataclass(slots=True)
class Command:
    """One command and what it is said to print."""

    text: str
    shown: list[str] = field(default_factory=list)
    exit_code: int = 0


@dataclass(slots=True)
class Block:
    """One fenced block."""

    line: int
    language: str
    content: list[str]
    special: dict[str, str]

    def commands(self) -> list[Command]:
        """Its commands, in order."""
        found: list[Command] = []
        for line in self.content:
            if line.startswith("$ "):
                found.append(Command(line[2:]))
            elif line.startswith("> ") and found and not found[-1].shown:
                found[-1].text += "\n" + line[2:]
            elif line.strip() and found:
                found[-1].shown.append(line)
        if found:
            found[-1].exit_code = int(self.special.get("exit", 0))
        return found


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    special: dict[str, str] = {}
    open_block: Block | None = None
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if open_block is not None:
            if line.startswith("```"):
                open_block = None
            else:
                open_block.content.append(line)
        elif line.startswith("```"):
            open_block = Block(number, line[3:].strip(), [], special)
            found.append(open_block)
            special = {}
        elif comment := COMMENT.match(line):
            special[comment[1]] = comment[2]
        else:
            special = {}
    return found


def all_pages() -> list[Path]:
    """Every page that has something to type."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in pages if any(b.language == "console" for b in blocks(page))]


def missing(shown: list[str], printed: str) -> str | None:
    """The first line that is shown but was not printed, in this order; None: all were."""
    lines = iter(printed.splitlines())
    for wanted in shown:
        if wanted.strip() == "...":
            continue
        pattern = re.compile(
            r"\s*" + ".*".join(re.escape(part.strip()) for part in wanted.split("...")) + r"\s*"
        )
        words = re.compile(re.sub(r"(\\ )+", r"\\s+", pattern.pattern))
        if not any(words.fullmatch(line) for line in lines):
            return wanted
    return None
