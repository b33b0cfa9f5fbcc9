"""The table of entry points is whole: whatever a program can ask a driver for has a class in it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import coverage
from tests.support import entrypoints
from tests.support.entrypoints import SUFFIXES, Form, ask, requests
from tests.support.native import native_dir

NATIVE = Path(__file__).resolve().parents[2] / "native"
CUDA = NATIVE / "cuda"
NOT_HERE = {"cuWGLGetDevice"}
"""of other systems"""


def table() -> dict[Form, entrypoints.Entry]:
    return entrypoints.table(NATIVE)


def symbols() -> set[str]:
    """Every exported name that the tables know, flavours included."""
    found = {entry.symbol for entry in table().values()}
    text = (CUDA / "cuda_calls.def").read_text()
    for kind, name in re.findall(r"^CUDA_CALL(_DS|_SZ)?\((\w+),", text, re.MULTILINE):
        found |= {name, name + SUFFIXES[kind]}
    return found


def without_comments(path: Path) -> str:
    return re.sub(r"/\*.*?\*/", "", path.read_text(errors="replace"), flags=re.DOTALL)


def test_every_request_of_nvidias_runtimes_is_in_the_table() -> None:
    asked = requests(NATIVE)
    entries = list(coverage.expected(asked))
    assert len(asked) == 458
    assert [q for q, entry in zip(asked, entries, strict=True) if entry is None] == []


def test_every_entry_has_a_class() -> None:
    assert [form for form, entry in table().items() if not entry.kind] == []


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
    for form, entry in table().items():
        symbol = entry.symbol.removesuffix(form.flavour)
        by_name[form.name, form.flavour].append((form.since, symbol))
    for forms in by_name.values():
        order = [symbol for _, symbol in sorted(forms)]
        assert order == sorted(order, key=lambda s: int((re.search(r"_v(\d)$", s) or "01")[1]))


@pytest.mark.parametrize("kind", ["Alloc", "Create", "Map", "Import", "Export", "Open", "Launch"])
def test_what_makes_shares_or_starts_something_is_not_just_passed_through(kind: str) -> None:
    passed = {entry.symbol for entry in table().values() if entry.kind == "PASS"}
    found = {
        symbol for symbol in passed if re.match(rf"cu(Mem|Ipc|Array|Multicast)?{kind}", symbol)
    }
    host = {"cuMemAllocHost", "cuMemAllocHost_v2"}  # of the host, which nobody moves
    mapping = {"cuMemMap"}  # of what cuMemCreate made, which pinned
    events = {"cuIpcOpenEventHandle"}
    semaphores = {"cuImportExternalSemaphore"}
    assert found - host - mapping - events - semaphores == set()


@pytest.fixture
def driver(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """An environment with a driver of some version, and the shim or not."""
    built = native_dir()
    if built is None or not (built / "libmoiety.so").exists():
        pytest.skip("the native libraries are not built: make test builds them")

    def environment(version: int, *, shared: bool = True, aliases: bool = False) -> dict[str, str]:
        return {
            "MOIETY_SIMGPU": f"A100-80:memory=64MiB,driver={version}",
            "MOIETY_SIMGPU_STATE": str(tmp_path / "state"),
            "MOIETY_SIMGPU_ALIASES": str(int(aliases)),
            "LD_LIBRARY_PATH": str(built / "simgpu"),
            **({"LD_PRELOAD": str(built / "libmoiety.so")} if shared else {}),
        }

    return environment


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "under the shim"])
def test_every_request_finds_the_function_that_the_table_says(
    shared: bool, driver: Callable[..., dict[str, str]]
) -> None:
    asked = requests(NATIVE)
    answers = ask(asked, driver(13050, shared=shared))
    good = coverage.right(answers, list(coverage.expected(asked)), shared=shared)
    assert [(q, a) for q, a, ok in zip(asked, answers, good, strict=True) if not ok] == []


@pytest.mark.parametrize("version", [12040, 13050])
def test_functions_are_known_by_name_where_the_driver_gives_addresses_of_its_own(
    version: int, driver: Callable[..., dict[str, str]]
) -> None:
    asked = [q._replace(version=13050) for q in requests(NATIVE)]  # newer than an older driver has
    exported = ask(asked, driver(version))
    private = ask(asked, driver(version, aliases=True))
    shim = [answer for answer in exported if answer.library == "libmoiety.so"]
    assert len(shim) > 150
    assert [a for a in private if a.library == "libmoiety.so"] == shim
    assert {a.symbol for a in private if a.library == "libcuda.so.1"} == {""}
