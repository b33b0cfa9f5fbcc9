"""The Python picture of the protocol against what a C compiler makes of the header."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest
from tools.wire_header import source

from moiety.wire import layout
from moiety.wire.messages import MESSAGES
from moiety.wire.structs import offsets, packer

HEADER = Path(__file__).parents[3] / "native" / "wire" / "wire.h"
TYPES = {"H": "uint16_t", "I": "uint32_t", "Q": "uint64_t"}


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


SOURCE = without_comments(source(HEADER.parent))
STRUCTS = dict(re.findall(r"struct (mw_\w+) \{(.*?)\n\};", SOURCE, flags=re.DOTALL))
FIELDS = {name: re.findall(r"(\w+)(?:\[\w+\])?;", body) for name, body in STRUCTS.items()}
ENUMS = dict(re.findall(r"enum (mw_\w+) \{(.*?)\n\};", SOURCE, flags=re.DOTALL))
DEFINES = re.findall(r"#define (MW_\w+) ", SOURCE)


def python_constants() -> dict[str, int]:
    """Every constant of the header, under its name there, with Python's value."""
    named = {
        f"MW_{name}": getattr(layout, name)
        for name in dir(layout)
        if name.isupper() and isinstance(getattr(layout, name), int)
    }
    prefixes: dict[type[IntEnum | IntFlag], str] = {
        layout.Type: "MW_",
        layout.WelcomeFlag: "MW_WELCOME_",
        layout.HelloFlag: "MW_HELLO_",
        layout.AllocFlag: "MW_ALLOC_",
        layout.FreeFlag: "MW_FREE_",
        layout.SharedFlag: "MW_SHARED_",
        layout.ShareFlag: "MW_SHARE_",
        layout.MemoryMode: "MW_MEMORY_",
        layout.EvictedFlag: "MW_EVICTED_",
        layout.Refusal: "MW_REFUSAL_",
    }
    for enum, prefix in prefixes.items():
        named |= {prefix + member.name: int(member) for member in enum if member.name}
    return named


def header_constants() -> list[str]:
    members = [name for body in ENUMS.values() for name in re.findall(r"(MW_\w+) =", body)]
    return DEFINES + members


def compiler() -> list[str]:
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return [path]
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("no C compiler on this machine")
    return [sys.executable, "-m", "ziglang", "cc"]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What the compiler says: constants by name, `sizeof s`, and offsets as `s.field`."""
    lines = [
        f'printf("{name} %llu\\n", (unsigned long long){name});' for name in header_constants()
    ]
    for name, fields in FIELDS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        lines += [f'printf("{name}.{f} %zu\\n", offsetof(struct {name}, {f}));' for f in fields]
    folder = tmp_path_factory.mktemp("header")
    program_source = folder / "print.c"
    program_source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n"
        f'#include "{HEADER}"\n#include "wire/gpus.h"\n#include "wire/host.h"\nint main(void) {{\n'
        + "\n".join(lines)
        + "\nreturn 0;\n}\n"
    )
    program = folder / "print"
    flags = ["-Wall", "-Werror", "-I", str(HEADER.parents[1])]
    subprocess.run([*compiler(), *flags, "-o", program, program_source], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: int(line.split()[1]) for line in printed.splitlines()}


def test_the_header_is_understood() -> None:
    assert len(STRUCTS) == len(re.findall(r"\bstruct mw_\w+ \{", SOURCE))
    assert len(ENUMS) == len(re.findall(r"\benum mw_\w+ \{", SOURCE))


def test_python_has_every_constant_and_no_other() -> None:
    assert set(python_constants()) == set(header_constants())


def test_python_has_every_struct_and_no_other() -> None:
    assert set(layout.LAYOUTS) == set(STRUCTS)


def test_every_type_has_a_message() -> None:
    assert sorted(kind for cls in MESSAGES for kind in cls.TYPES) == sorted(layout.Type)


def test_constants_have_the_compiled_values(compiled: dict[str, int]) -> None:
    assert {name: compiled[name] for name in python_constants()} == python_constants()


@pytest.mark.parametrize("name", sorted(layout.LAYOUTS))
def test_a_layout_is_the_compiled_one(name: str, compiled: dict[str, int]) -> None:
    assert packer(name).size == compiled[name]
    assert offsets(name) == {f: compiled[f"{name}.{f}"] for f in FIELDS[name]}


def test_the_layouts_field_types_are_the_headers() -> None:
    for name, body in STRUCTS.items():
        declared = re.findall(r"(\w+) (\w+)(\[\w+\])?;", body)
        own = [
            (kind, field) for kind, field, array in declared if kind != "mw_header" and not array
        ]
        scalars = [(TYPES[code], field) for field, code in layout.LAYOUTS[name] if code in TYPES]
        assert scalars == [(kind, f) for kind, f in own if f != "reserved"]
