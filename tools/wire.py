"""Makes the Python side of the protocol, and its reference page, from native/wire/wire.h.

    python tools/wire.py            writes the files anew
    python tools/wire.py --check    ends with 1 and names the files that differ

wire_header.py reads the header, wire_fields.py the table of what bounds each field.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
HEADERS: Final = ROOT / "native" / "wire"
LAYOUT: Final = ROOT / "src" / "moiety" / "wire" / "layout.py"
MESSAGES: Final = ROOT / "src" / "moiety" / "wire" / "messages.py"
PAGE: Final = ROOT / "docs" / "reference-protocol.md"
BEGIN: Final = "<!-- made by tools/wire.py from here on -->\n"
sys.path[:0] = [str(ROOT)]
from tools.wire_fields import problems, rows, senders  # noqa: E402
from tools.wire_header import Constant, Field, Header, Struct, read, source  # noqa: E402  it needs the path

CODES: Final = {"uint16_t": ("H", 2), "uint32_t": ("I", 4), "uint64_t": ("Q", 8)}
WIDTH: Final = 100


def camel(name: str) -> str:
    """`mw_lease_note` as `LeaseNote`."""
    return "".join(part.capitalize() for part in name.removeprefix("mw_").split("_"))


def wrapped(text: str, indent: str = "    ") -> Iterator[str]:
    """A docstring: one line if it fits, else its first sentence and the rest below it."""
    sentence = text[0].upper() + text[1:]
    sentence = sentence if sentence.endswith((".", "?")) else sentence + "."
    if len(indent) + 6 + len(sentence) <= WIDTH:
        yield f'{indent}"""{sentence}"""'
        return
    head, _, rest = sentence.partition(". ")
    yield f'{indent}"""{head.rstrip(".")}.'
    yield ""
    line = indent.rstrip("\n")
    for word in rest.split():
        if len(line) + 1 + len(word) > WIDTH:
            yield line
            line = indent
        line = f"{line}{'' if line == indent else ' '}{word}"
    yield line
    yield f'{indent}"""'


# The layouts


def layout(header: Header) -> str:
    """The text of wire/layout.py."""
    lines = [
        '"""The numbers and layouts of `native/wire/wire.h`; made from it by tools/wire.py."""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum, IntFlag",
        "from typing import Final",
        "",
    ]
    for each in header.constants:
        value = f"{each.value:#010X}".replace("0X", "0x") if each.value > 1 << 16 else each.value
        lines.append(f"{each.name.removeprefix('MW_')}: Final = {value}")
        if each.about:
            lines.append(f'"""{each.about}"""')
    lines += [
        "",
        "",
        "class Type(IntEnum):",
        '    """The type of a message; `enum mw_type`."""',
        "",
    ]
    for each_type in header.types:
        lines.append(f"    {each_type.name.removeprefix('MW_')} = {each_type.value}")
    for name, group in header.flags.items():
        prefix = f"MW_{name.removeprefix('mw_').upper()}_"
        lines += ["", "", f"class {camel(name)}Flag(IntFlag):", f'    """`{name}.flags`."""', ""]
        lines += _members(group, prefix)
    for name, (about, members) in header.enums.items():
        prefix = members[0].name
        while not all(each.name.startswith(prefix) for each in members):
            prefix = prefix.rstrip("_").rpartition("_")[0] + "_"
        doc = f'    """{about.rstrip(".")}; `enum {name}`."""'
        lines += ["", "", f"class {camel(name)}(IntEnum):", doc, "", *_members(members, prefix)]
    lines += [
        "",
        "",
        "Layout = tuple[tuple[str, str], ...]",
        "",
        'HEADER: Final = ("header", "HHI")',
    ]
    lines += ["", "LAYOUTS: Final[dict[str, Layout]] = {"]
    sizes: dict[str, int] = {}
    for each_struct in header.structs.values():
        lines.append(f'    "{each_struct.name}": (')
        lines += [f"        {_coded(header, each, sizes)}," for each in each_struct.fields]
        lines.append("    ),")
        sizes[each_struct.name] = sum(_size(header, each, sizes) for each in each_struct.fields)
    lines.append("}")
    return "\n".join([*lines, ""])


def _members(group: Sequence[Constant], prefix: str) -> Iterator[str]:
    for each in group:
        yield f"    {each.name.removeprefix(prefix)} = {each.value}"
        if each.about:
            yield f'    """{each.about}"""'


def _size(header: Header, field: Field, sizes: dict[str, int]) -> int:
    one = CODES[field.kind][1] if field.kind in CODES else sizes.get(field.kind, 1)
    return one * (header.value(field.length) if field.length else 1)


def _coded(header: Header, field: Field, sizes: dict[str, int]) -> str:
    """One field as `struct` has it; what is reserved, and arrays of structs, are padding."""
    if field.kind == "mw_header":
        return "HEADER"
    if field.name == "reserved" or field.kind in sizes:
        return f'("{field.name}", "{_size(header, field, sizes)}x")'
    if field.kind in ("char", "uint8_t"):
        length = field.length.removeprefix("MW_")
        return f'("{field.name}", f"{{{length}}}s")'
    if field.length:
        raise ValueError(f"{field.name}: an array of {field.kind} has no form in Python yet")
    return f'("{field.name}", "{CODES[field.kind][0]}")'


# The messages


def messages(header: Header) -> str:
    """The text of wire/messages.py."""
    bodies: list[str] = []
    carriers = [each for each in header.structs.values() if header.types_of(each.name)]
    for each in carriers:
        bodies += ["", "", f"class {camel(each.name)}Message(Message, frozen=True):"]
        bodies += [*wrapped(each.about), "", *_fields(header, each)]
    body = "\n".join(bodies)
    used = [name for name in sorted(_names(header)) if re.search(rf"\b{name}\b", body)]
    lines = [
        '"""The messages as frozen values; made from `native/wire/wire.h` by tools/wire.py.',
        "",
        "One class stands for one struct. Where several types share a struct, `type` tells them",
        "apart. `serial` is that of the request that a reply answers, or 0.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
        "from moiety.wire.layout import (",
        *(f"    {name}," for name in [*used, "Type"]),
        ")",
        "from moiety.wire.message import Message",
    ]
    end = ["", "", "MESSAGES: Final = tuple(Message.__subclasses__())"]
    return "\n".join([*lines, body, *end, ""])


def _names(header: Header) -> list[str]:
    return [each.name.removeprefix("MW_") for each in header.constants]


def _fields(header: Header, struct: Struct) -> Iterator[str]:
    types = [each.name.removeprefix("MW_") for each in header.types_of(struct.name)]
    yield f'    LAYOUT = "{struct.name}"'
    if len(types) < 4:
        listed = ", ".join(f"Type.{each}" for each in types)
        yield f"    TYPES = ({listed}{',' * (len(types) == 1)})"
    else:
        yield "    TYPES = ("
        yield from (f"        Type.{each}," for each in types)
        yield "    )"
    *before, last = (each for each in struct.fields if each.kind != "mw_header")
    if any(each.kind == "char" for each in before):
        raise ValueError(f"{struct.name}: text must be the last field")
    if last.kind == "char":
        yield f"    TEXT_LIMIT = {last.length.removeprefix('MW_')}"
    if types[0].startswith(struct.name.removeprefix("mw_").upper()) or len(types) == 1:
        yield f"    type: int = Type.{types[0]}"
        yield "    serial: int = 0"
    for each in struct.fields:
        if each.kind != "mw_header" and each.name != "reserved":
            yield f"    {each.name}: {_default(header, each)}"


def _default(header: Header, field: Field) -> str:
    """The Python type of a field and the value it has where none is given."""
    if field.kind == "char":
        return 'str = ""'
    if field.kind == "uint8_t":
        return f"bytes = bytes({field.length.removeprefix('MW_')})"
    if field.name.upper() in _names(header):
        return f"int = {field.name.upper()}"
    return "int = NO_GPU" if "MW_NO_GPU" in field.about else "int = 0"


# The page

DIRECTIONS: Final = {">": "to the agent", "<": "to the client", "><": "either way"}


def page(header: Header) -> str:
    """The tables of docs/reference-protocol.md."""
    rows = [
        [
            str(each.value),
            f"`{each.name}`",
            f"[`{each.struct}`](#{each.struct.replace('_', '-')})",
            "; ".join(f"{DIRECTIONS[arrow]}: {escaped(text)}" for arrow, text in each.meanings),
        ]
        for each in header.types
    ]
    parts = ["## Messages\n", table(["type", "name", "struct", "meaning"], rows), "## Structs\n"]
    for struct in header.structs.values():
        fields = [
            [
                f"`{each.name}{f'[{each.length}]' if each.length else ''}`",
                f"`{each.kind}`",
                escaped(each.about),
            ]
            for each in struct.fields
        ]
        parts += [f"### {struct.name}\n", escaped(struct.about) + "\n"]
        parts.append(table(["field", "type", "meaning"], fields))
        if flags := header.flags.get(struct.name):
            parts.append(table(["flag", "value", "meaning"], _constants(flags)))
    for name, (about, members) in header.enums.items():
        parts += [
            f"### {name}\n",
            about + "\n",
            table(["name", "value", "meaning"], _constants(members)),
        ]
    parts += ["## Constants\n", table(["name", "value", "meaning"], _constants(header.constants))]
    parts += ["## What a lie can do\n", LIES, table(LIE_TITLES, _lies(header))]
    return "\n".join(parts)


LIE_TITLES: Final = ("message", "field", "from", "what a lie could change", "what bounds it")
LIES: Final = """\
Nothing that a client says is believed for its own sake. This table has every field of every
message. *kernel* is what the kernel says of the process, *NVML* what the driver counts, *ledger*
what the agent counted itself, *limit* a limit of the agent, a share or a user, and *format* means
that any other value ends the connection.
"""


def _lies(header: Header) -> list[list[str]]:
    found = rows(HEADERS)
    if wrong := problems(header, found):
        raise ValueError("; ".join(wrong))
    return [
        [
            ", ".join(f"`{each}`" for each in row.about)
            if row.about != ("*",)
            else "every message",
            ", ".join(f"`{each}`" for each in row.fields),
            senders(header, row),
            escaped(row.lie),
            escaped(row.bound),
        ]
        for row in found
    ]


def _constants(group: Sequence[Constant]) -> list[list[str]]:
    return [[f"`{each.name}`", str(each.value), escaped(each.about)] for each in group]


def escaped(text: str) -> str:
    """Prose of a comment in a cell of a table: names are code, stars and bars are escaped."""
    marked = re.sub(r"(?<!`)\b((?:MW|mw|cu)_?\w*[_A-Z]\w*\*?)", r"`\1`", text)
    return marked.replace("|", "\\|")


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def made(header: Header) -> dict[Path, str]:
    """Every file that is made, with its text."""
    before, begin, _ = PAGE.read_text().partition(BEGIN)
    if not begin:
        raise ValueError(f"{PAGE.name} has no line {BEGIN.strip()!r}")
    return {
        LAYOUT: layout(header),
        MESSAGES: messages(header),
        PAGE: f"{before}{BEGIN}\n{page(header)}",
    }


def main() -> int:
    files = made(read(source(HEADERS)))
    differ = [file for file, text in files.items() if file.read_text() != text]
    if "--check" in sys.argv[1:]:
        for file in differ:
            print(f"{file.relative_to(ROOT)} is not what wire.h says: run python tools/wire.py")
        return 1 if differ else 0
    for file in differ:
        file.write_text(files[file])
        print(file.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
