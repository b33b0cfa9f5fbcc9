"""The table of entry points is whole: whatever a program can ask a driver for has a class in it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

CUDA = Path(__file__).resolve().parents[2] / "native" / "cuda"
CLASSES = Path(__file__).resolve().parents[2] / "native" / "shim" / "entrypoints.h"
SUFFIXES = {"": "", "_DS": "_ptds", "_SZ": "_ptsz"}
NOT_HERE = {"cuWGLGetDevice"}
"""of other systems"""


@dataclass(frozen=True, order=True)
class Form:
    """What is returned for a name asked for at a version or later."""

    name: str
    since: int
    flavour: str


def table() -> dict[Form, str]:
    """Every form, and the symbol that it is exported as."""
    found: dict[Form, str] = {}
    text = (CUDA / "entrypoints.def").read_text()
    rows = re.findall(r"^ENTRY(_DS|_SZ)?\((\w+), (\w+), (\d+)(?:, (\d+))?\)$", text, re.MULTILINE)
    text = (CUDA / "plain_calls.def").read_text()
    row = r"^PLAIN(_DS|_SZ)?\(\w+, (\w+), (\w+), (\d+)(?:, (\d+))?\)$"
    for kind, name, symbol, since, since_own in rows + re.findall(row, text, re.MULTILINE):
        forms = [(Form(name, int(since), ""), symbol)]
        if kind:
            suffix = SUFFIXES[kind]
            forms.append((Form(name, int(since_own), suffix), symbol + suffix))
        for form, exported in forms:
            assert form not in found, f"{form} twice"
            found[form] = exported
    return found


def symbols() -> set[str]:
    """Every exported name that the tables know, flavours included."""
    found = set(table().values())
    text = (CUDA / "cuda_calls.def").read_text()
    for kind, name in re.findall(r"^CUDA_CALL(_DS|_SZ)?\((\w+),", text, re.MULTILINE):
        found |= {name, name + SUFFIXES[kind]}
    return found


def without_comments(path: Path) -> str:
    return re.sub(r"/\*.*?\*/", "", path.read_text(errors="replace"), flags=re.DOTALL)


def test_every_request_of_nvidias_runtimes_is_in_the_table() -> None:
    known = {(form.name, form.since, bool(form.flavour)) for form in table()}
    asked = [
        (name, int(version), bool(own))
        for line in (CUDA / "requests.txt").read_text().splitlines()
        if not line.startswith("#")
        for name, rest in [line.split(" ", 1)]
        for version, own in re.findall(r"(\d+)(t?)", rest)
    ]
    assert len(asked) == 458
    assert [request for request in asked if request not in known] == []


def test_every_form_that_the_headers_name_is_in_the_table(header: Path) -> None:
    named: set[Form] = set()
    for path in header.glob("*ypedefs.h"):
        pattern = r"\*PFN_(cu[A-Z]\w*?)_v(\d{4,5})(_ptsz|_ptds)?\)"
        named |= {Form(n, int(v), f) for n, v, f in re.findall(pattern, without_comments(path))}
    named = {form for form in named if form.name not in NOT_HERE}
    assert len(named) > 600
    assert named - table().keys() == set()


def test_every_function_that_the_headers_declare_is_in_the_table(header: Path) -> None:
    declared: set[str] = set()
    for name in ("cuda", "cudaGL", "cudaEGL", "cudaVDPAU", "cudaProfiler"):
        if (header / f"{name}.h").exists():
            text = without_comments(header / f"{name}.h")
            declared |= set(re.findall(r"CUresult\s+CUDAAPI\s+(cu[A-Z]\w*)\s*\(", text))
            declared |= set(re.findall(r"#define\s+cu\w+\s+(cu[A-Z]\w*)", text))
            for flavour, symbol in re.findall(r"__CUDA_API_(PTDS|PTSZ)\((cu\w+)\)", text):
                declared |= {symbol, f"{symbol}_{flavour.lower()}"}
    inline = {"cuGetProcAddress_v2_ptsz"}  # of the header's own
    assert len(declared) > 600
    assert declared - symbols() - NOT_HERE - inline == set()


def test_later_forms_have_later_symbols() -> None:
    by_name: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for form, symbol in table().items():
        by_name[form.name, form.flavour].append((form.since, symbol.removesuffix(form.flavour)))
    for forms in by_name.values():
        order = [symbol for _, symbol in sorted(forms)]
        assert order == sorted(order, key=lambda s: int((re.search(r"_v(\d)$", s) or "01")[1]))


@pytest.mark.parametrize("kind", ["Alloc", "Create", "Map", "Import", "Export", "Open", "Launch"])
def test_what_makes_shares_or_starts_something_is_not_just_passed_through(kind: str) -> None:
    classes = dict(re.findall(r"^#define CLASS_(\w+) (\w+)$", CLASSES.read_text(), re.MULTILINE))
    text = (CUDA / "plain_calls.def").read_text()
    classes |= {s: c for c, s in re.findall(r"^PLAIN\w*\((\w+), \w+, (\w+),", text, re.MULTILINE)}
    passed = {symbol for symbol, its in classes.items() if its == "PASS"}
    found = {
        symbol for symbol in passed if re.match(rf"cu(Mem|Ipc|Array|Multicast)?{kind}", symbol)
    }
    host = {"cuMemAllocHost", "cuMemAllocHost_v2"}  # of the host, which nobody moves
    mapping = {"cuMemMap"}  # of what cuMemCreate made, which pinned
    events = {"cuIpcOpenEventHandle"}
    semaphores = {"cuImportExternalSemaphore"}
    assert found - host - mapping - events - semaphores == set()
