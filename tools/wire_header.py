"""Reads the headers of native/wire, which keep to the form that wire.h describes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True)
class Constant:
    """One `#define` or one member of an enum."""

    name: str
    value: int
    about: str


@dataclass(frozen=True)
class Field:
    """One field of a struct; `length` names the constant that an array has, or is a number."""

    kind: str
    name: str
    length: str
    about: str


@dataclass(frozen=True)
class Struct:
    """One struct, with the comment above it."""

    name: str
    about: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Type:
    """One type of message: its directions in order, and the struct that carries it."""

    name: str
    value: int
    struct: str
    meanings: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Header:
    """All that the header says."""

    constants: tuple[Constant, ...]
    types: tuple[Type, ...]
    flags: dict[str, tuple[Constant, ...]]
    enums: dict[str, tuple[str, tuple[Constant, ...]]]
    structs: dict[str, Struct]

    def types_of(self, struct: str) -> list[Type]:
        """The types of message that this struct carries."""
        return [each for each in self.types if each.struct == struct]

    def value(self, length: str) -> int:
        """The number that a length stands for: a constant's, or its own."""
        known = {each.name: each.value for each in self.constants}
        return known[length] if length in known else int(length)


COMMENT: Final = re.compile(r"/\*(.*?)\*/", re.DOTALL)
DEFINE: Final = re.compile(r"#define (MW_\w+) (\w+?)u?(?: +/\*(.*?)\*/)?$", re.MULTILINE)
MEMBER: Final = re.compile(r"(MW_\w+) = (\d+),(?:\s*/\*(.*?)\*/)?", re.DOTALL)
TYPE: Final = re.compile(r"/\*(.*?)\*/\s*(MW_\w+) = (\d+),", re.DOTALL)
BLOCK: Final = re.compile(
    r"(/\*(?:(?!\*/).)*\*/\n)(struct|enum) (mw_\w+) \{\n(.*?)\n\};", re.DOTALL
)
FIELD: Final = re.compile(
    r"^ +((?:struct )?\w+) (\w+)(?:\[(\w+)\])?;(?: */\*((?:(?!\*/).)*)\*/)?",
    re.DOTALL | re.MULTILINE,
)
FLAGS: Final = re.compile(r"/\* (mw_\w+)\.flags \*/\n((?:#define .*\n(?: {8,}.*\n)*)+)")


def plain(comment: str) -> str:
    """A comment as one line, without its stars."""
    return " ".join(line.strip().removeprefix("*").strip() for line in comment.split("\n")).strip()


def source(folder: Path) -> str:
    """The text of the headers in a folder."""
    names = ("wire.h", "gpus.h", "host.h", "pages.h")
    return "".join((folder / name).read_text() for name in names)


def read(text: str) -> Header:
    """The header, parsed; raises ValueError where it leaves its own form."""
    flags = {found[1]: _defines(found[2]) for found in FLAGS.finditer(text)}
    named = {each.name for group in flags.values() for each in group}
    constants = [each for each in _defines(text) if each.name not in named]
    structs: dict[str, Struct] = {}
    enums: dict[str, tuple[str, tuple[Constant, ...]]] = {}
    for above, kind, name, body in BLOCK.findall(text):
        about = plain(COMMENT.findall(above)[-1])
        if kind == "struct":
            fields = [
                Field(each[0].removeprefix("struct "), each[1], each[2], plain(each[3]))
                for each in FIELD.findall(body)
            ]
            if len(fields) != COMMENT.sub("", body).count(";"):
                raise ValueError(f"{name}: a field stands on more than one line")
            structs[name] = Struct(name, about, tuple(fields))
        else:
            members = (Constant(n, int(v), plain(c)) for n, v, c in MEMBER.findall(body))
            enums[name] = about, tuple(members)
    body = text[text.index("enum mw_type {") :].split("\n};", 1)[0]
    types = [_type(name, int(value), comment) for comment, name, value in TYPE.findall(body)]
    if unknown := {each.struct for each in types} - set(structs):
        raise ValueError(f"wire.h names structs that it does not have: {sorted(unknown)}")
    return Header(tuple(constants), tuple(types), flags, enums, structs)


def _defines(text: str) -> tuple[Constant, ...]:
    return tuple(
        Constant(name, int(value, 0), plain(about or ""))
        for name, value, about in DEFINE.findall(text)
    )


def _type(name: str, value: int, comment: str) -> Type:
    """A message's type; its comment has a direction, a struct, a colon, and what it means."""
    lines: list[str] = []
    for line in comment.split("\n"):
        stripped = line.strip().removeprefix("*").strip()
        if stripped[:1] in "<>" and stripped:
            lines.append(stripped)
        elif lines:
            lines[-1] += " " + stripped
    if not lines or not (first := re.match(r"([<>]) (mw_\w+): (.*)", lines[0], re.DOTALL)):
        raise ValueError(f"{name}: the comment above it does not say direction and struct")
    meanings = [(first[1], first[3].strip())]
    for line in lines[1:]:
        arrow, _, rest = line.partition(" ")
        if rest.startswith("< "):
            arrow, rest = "><", rest[2:]
        meanings.append((arrow, rest.strip()))
    return Type(name, value, first[2], tuple(meanings))
