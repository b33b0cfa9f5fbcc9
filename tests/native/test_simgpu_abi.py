"""Our declarations of the driver API against NVIDIA's own header, where one can be had.

The header is used in these tests and nowhere else (conftest.py says where it comes from).
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support.native import compile_c, compiler

ROOT = Path(__file__).resolve().parents[2]
ABI = ROOT / "native" / "cuda" / "abi"
CALLS = ROOT / "native" / "cuda" / "cuda_calls.def"

# Fields that one of NVIDIA's headers names differently; their place follows from their neighbours'.
UNNAMED = {"CUstreamBatchMemOpParams": {"flushRemoteWrites", "memoryBarrier"}}


def constants(text: str) -> list[str]:
    """Every name of an enum."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    found: list[str] = []
    for body in re.findall(r"typedef enum \w+ \{(.*?)\}", text, re.DOTALL):
        found += re.findall(r"(\w+) = ", body)
    return found


def structures(text: str) -> dict[str, list[str]]:
    """Every struct and union with the names of its outermost fields."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    found: dict[str, list[str]] = {}
    for match in re.finditer(r"typedef (?:struct|union) \w+ \{", text):
        depth, at = 1, match.end()
        fields: list[str] = []
        level = ""
        while depth:
            c = text[at]
            depth += (c == "{") - (c == "}")
            if depth == 1 and c not in "{}":
                level += c
            at += 1
        name = re.match(r"\s*(\w+);", text[at:])
        assert name
        for statement in level.split(";"):
            parts = [re.search(r"(\w+)(\[[^\]]*\])?\s*$", p.strip()) for p in statement.split(",")]
            fields += [part.group(1) for part in parts if part]
        found[name.group(1)] = [f for f in fields if f not in {"union", "struct"}]
    return found


def facts(
    include: str, names: list[str], shapes: dict[str, list[str]], out: Path, flags: list[str]
) -> str:
    """What a compiler says about them with one of the headers."""
    lines = ["#include <stddef.h>", "#include <stdio.h>", f"#include {include}", "int main(void) {"]
    lines += [f'printf("{n} %lld\\n", (long long){n});' for n in names]
    for shape, fields in shapes.items():
        lines.append(f'printf("{shape} %zu\\n", sizeof({shape}));')
        lines += [
            f'printf("{shape}.{f} %zu %zu\\n",'
            f" offsetof({shape}, {f}), sizeof((({shape} *)0)->{f}));"
            for f in fields
            if f not in UNNAMED.get(shape, ())
        ]
    source = out.with_suffix(".c")
    source.write_text("\n".join([*lines, "return 0; }"]))
    compile_c([source], out, flags=flags)
    return subprocess.run([out], capture_output=True, text=True, check=True).stdout


def test_sizes_offsets_and_values_are_nvidias(header: Path, tmp_path: Path) -> None:
    ours = "".join(file.read_text() for file in sorted(ABI.glob("*.h")))
    theirs = (header / "cuda.h").read_text(errors="replace")
    known = set(re.findall(r"\w+", theirs))
    # How many there are grows with every version; what each of them is does not.
    names = [n for n in constants(ours) if n in known and "_NUM_" not in n]
    shapes = {
        shape: [f for f in fields if f in known]
        for shape, fields in structures(ours).items()
        if shape in known
        and not (shape == "CUgraphNodeParams" and "CUDA_KERNEL_NODE_PARAMS_v3" not in known)
    }
    assert len(names) > 500
    assert len(shapes) > 35
    newer = {  # grew in 13: the older header has less
        "CUmemPoolProps": {"gpuDirectRDMACapable", "reserved"},
        "CUDA_EVENT_RECORD_NODE_PARAMS": {"ctx"},
        "CUDA_HOST_NODE_PARAMS_v2": {"syncMode", "ctx"},
    }
    if "CU_GRAPH_NODE_TYPE_RESERVED_16" not in known:
        for shape, fields in newer.items():
            if shape in {"CUDA_EVENT_RECORD_NODE_PARAMS", "CUDA_HOST_NODE_PARAMS_v2"}:
                shapes.pop(shape, None)
            elif shape in shapes:
                shapes[shape] = [f for f in shapes[shape] if f not in fields]
    mine = facts('"cuda/cuda_abi.h"', names, shapes, tmp_path / "ours", [f"-I{ROOT / 'native'}"])
    yours = facts("<cuda.h>", names, shapes, tmp_path / "theirs", [f"-isystem{header}"])
    assert mine.splitlines() == yours.splitlines()


def normal(parameters: str) -> list[str]:
    """The types of a parameter list, without names."""
    types: list[str] = []
    for one in parameters.split(","):
        text = re.sub(r"\s*\*\s*", "* ", " ".join(one.split()))
        text = re.sub(r"(?<=[\w*]) ?\w+$", "", text) if text != "void" else text
        types.append(text.replace(" ", "").replace("unsignedint", "unsigned"))
    return types


def test_calls_take_what_nvidias_take(header: Path, tmp_path: Path) -> None:
    source = tmp_path / "all.c"
    source.write_text("#include <cuda.h>")
    command = [*compiler(), "-E", "-P", f"-I{header}", str(source)]
    # The preprocessor puts the exported, versioned names in place of the documented ones.
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theirs = dict(re.findall(r"CUresult\s+(cu\w+)\(([^;]*)\);", text))
    compared = 0
    for name, parameters in re.findall(
        r"^CUDA_CALL(?:_DS|_SZ)?\((\w+),\s*\((.*?)\),\s*\(",
        CALLS.read_text(),
        re.DOTALL | re.MULTILINE,
    ):
        if name in theirs:
            assert normal(parameters) == normal(theirs[name]), name
            compared += 1
    assert compared > 250
