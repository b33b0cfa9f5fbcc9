"""Every call that takes a handle of the program's memory gives the driver the driver's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import entrypoints

NATIVE = Path(__file__).resolve().parents[2] / "native"
HANDLE = "CUmemGenericAllocationHandle"
TRANSLATORS = ("vmm_handle_find", "vmm_handle_of_driver", "bind_ours", "real_handle", "import_own")
"""What finds our handle, or the memory behind it, in hooks/."""
TEAM = "a multicast object: its handle is the driver's own"
REASONS = {
    ("cuMulticastCreate", "mcHandle"): TEAM,
    ("cuMulticastAddDevice", "mcHandle"): TEAM,
    ("cuMulticastBindMem", "mcHandle"): TEAM,
    ("cuMulticastBindMem_v2", "mcHandle"): TEAM,
    ("cuMulticastBindAddr", "mcHandle"): TEAM,
    ("cuMulticastBindAddr_v2", "mcHandle"): TEAM,
    ("cuMulticastUnbind", "mcHandle"): TEAM,
    ("cuMemCreate", "handle"): "returned: it is made by vmm_handle_make",
    ("cuMemRetainAllocationHandle", "handle"): "returned: it is the mapping's",
}
"""Parameters that are not translated, and why."""


def plain(text: str) -> str:
    """C without comments and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r"^\s*#.*$", " ", text, flags=re.MULTILINE)


def types_with_handles(text: str) -> set[str]:
    """The type, its other names, and every struct or union that has one inside."""
    found = {HANDLE, f"{HANDLE}_v1"}
    bodies = {}
    for match in re.finditer(r"typedef (?:struct|union) \w+ *\{", text):
        depth, at = 1, match.end()
        while depth:
            depth += (text[at] == "{") - (text[at] == "}")
            at += 1
        name = re.match(r"\s*(\w+)\s*;", text[at:])
        if name:
            bodies[name[1]] = text[match.end() : at]
    aliases = re.findall(r"typedef (?:const )?(?:struct )?(\w+)\s*\*?\s*(\w+)\s*;", text)
    while True:
        inside = {n for n, body in bodies.items() if found & set(re.findall(r"\w+", body))}
        named = {new for old, new in aliases if old in found | inside}
        if inside | named <= found:
            return found
        found |= inside | named


def parameters(header: Path) -> list[tuple[str, str]]:
    """Every function with the name of each parameter that is a handle or leads to one."""
    text = plain((header / "cuda.h").read_text(errors="replace"))
    kinds = types_with_handles(text)
    found = []
    for name, listed in re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^;{]*?)\)\s*;", text):
        for one in listed.split(","):
            words = re.findall(r"\w+", one)
            if len(words) > 1 and kinds & set(words[:-1]):
                found.append((name, words[-1]))
    return found


def bodies() -> dict[str, str]:
    """Every function of hooks/ with its text, and that of the static functions that it calls."""
    found: dict[str, str] = {}
    for file in (NATIVE / "shim" / "hooks").glob("*.c"):
        text = plain(file.read_text())
        own = dict(
            re.findall(
                r"^[a-zA-Z][^\n;{}()]*?(\w+)\([^;{}]*\)\n\{\n(.*?)^\}",
                text,
                re.MULTILINE | re.DOTALL,
            )
        )
        for name, body in own.items():
            reached, ahead = {name}, [body]
            while ahead:
                calls = set(re.findall(r"\b(\w+)\(", ahead[-1])) - reached
                ahead.pop()
                reached |= calls
                ahead += [own[call] for call in calls if call in own]
            found[name] = " ".join(reached)
    return found


def test_every_parameter_that_is_a_handle_is_translated(header: Path) -> None:
    kinds = {entry.symbol: entry.kind for entry in entrypoints.table(NATIVE).values()}
    texts = bodies()
    missing = [
        (call, parameter)
        for call, parameter in parameters(header)
        if (call, parameter) not in REASONS
        and not (kinds[call] == "OWN" and set(TRANSLATORS) & set(texts.get(call, "").split()))
    ]
    assert missing == []


def test_all_of_them_are_found(header: Path) -> None:
    calls = {call for call, _ in parameters(header)}
    assert {"cuMemMap", "cuMemMapArrayAsync", "cuMulticastBindMem", "cuMemRelease"} <= calls
    newer = "cuLogicalEndpointBindMem" in (header / "cuda.h").read_text(errors="replace")
    assert ("cuLogicalEndpointBindMem" in calls) == newer


def test_every_reason_is_of_a_parameter_that_exists(header: Path) -> None:
    if "cuMulticastBindMem_v2" not in (header / "cuda.h").read_text(errors="replace"):
        pytest.skip("these headers are older than some of the calls")
    assert REASONS.keys() - set(parameters(header)) == set()
