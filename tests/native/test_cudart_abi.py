"""Our declarations of the runtime API against NVIDIA's own headers, where they can be had.

The headers come in the wheel of NVIDIA's CUDA runtime. They are used here and nowhere else, and
kept in the cache outside the checkout; nothing else of the wheel is taken out of it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.native import cache_dir, compile_c, native_dir

ROOT = Path(__file__).resolve().parents[2]
CUDART = ROOT / "native" / "cudart"

WHEELS = {12: "nvidia-cuda-runtime-cu12==12.9.79", 13: "nvidia-cuda-runtime==13.5.37"}

# What the headers expect of a compiler for GPUs.
WORDS = ["__device_builtin__", "__cudart_builtin__", "__host__", "__device__", "CUDARTAPI"]
WORDS += ["CUDART_CB", "__device_builtin_texture_type__", "__device_builtin_surface_type__"]
MARKS = "".join(f"#define {word}\n" for word in WORDS)
MARKS += "#define __align__(n) __attribute__((aligned(n)))\n#define __builtin_align__ __align__\n"
MARKS += "#define __no_sc__\n#define __forceinline__ inline\n"


@pytest.fixture(scope="module", params=[12, 13])
def header(request: pytest.FixtureRequest) -> tuple[int, Path]:
    """A major version, and the folder with its driver_types.h."""
    major: int = request.param
    folder = cache_dir() / "cudart-headers" / str(major)
    if not list(folder.rglob("driver_types.h")):
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--retries", "0"]
        command += ["--timeout", "10", "-d", str(folder), WHEELS[major]]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{WHEELS[major]} cannot be had, so there is no header to compare with")
        for archive in folder.glob("*.whl"):
            with zipfile.ZipFile(archive) as content:
                content.extractall(folder, [n for n in content.namelist() if n.endswith(".h")])
            archive.unlink()
        marks = next(folder.rglob("driver_types.h")).parent / "crt" / "host_defines.h"
        marks.parent.mkdir(exist_ok=True)
        marks.write_text(MARKS)
    return major, next(folder.rglob("driver_types.h")).parent


def shapes() -> dict[str, list[str]]:
    """Our structs with their fields, whichever version has them."""
    text = re.sub(r"/\*.*?\*/", "", (CUDART / "cudart_abi.h").read_text(), flags=re.DOTALL)
    found: dict[str, list[str]] = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.DOTALL):
        fields: list[str] = []
        for statement in re.sub(r"#.*", "", body).split(";"):
            parts = [re.search(r"(\w+)(\[\d+\])?\s*$", p.strip()) for p in statement.split(",")]
            fields += [part.group(1) for part in parts if part]
        found[name] = [f for f in dict.fromkeys(fields) if f != "reserved"]
    return found


def facts(includes: list[str], known: dict[str, list[str]], out: Path, flags: list[str]) -> str:
    """Sizes and offsets, as a compiler sees them."""
    lines = ["#include <stddef.h>", "#include <stdio.h>", *includes, "int main(void) {"]
    for shape, fields in known.items():
        lines.append(f'printf("{shape} %zu\\n", sizeof({shape}));')
        lines += [
            f'printf("{shape}.{f} %zu %zu\\n",'
            f" offsetof({shape}, {f}), sizeof((({shape} *)0)->{f}));"
            for f in fields
        ]
    source = out.with_suffix(".c")
    source.write_text("\n".join([*lines, "return 0; }"]))
    compile_c([source], out, flags=flags)
    return subprocess.run([out], capture_output=True, text=True, check=True).stdout


def test_sizes_and_offsets_are_nvidias(header: tuple[int, Path], tmp_path: Path) -> None:
    major, folder = header
    theirs = (folder / "driver_types.h").read_text(errors="replace")
    theirs += (folder / "vector_types.h").read_text(errors="replace")
    body = re.search(r"cudaDeviceProp\s*\{(.*?)\n\};", theirs, re.DOTALL)
    assert body
    properties = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", body.group(1), flags=re.DOTALL)))
    known = {
        s: [f for f in fs if s != "cudaDeviceProp" or f in properties] for s, fs in shapes().items()
    }
    assert len(known) >= 9
    assert len(known["cudaDeviceProp"]) > 80
    tags = "".join(
        f"typedef struct {shape} {shape};\n" for shape in known if shape != "cudaLaunchConfig_t"
    )
    their_lines = ['#include "driver_types.h"', tags.replace("typedef struct dim3 dim3;\n", "")]
    own = facts(
        ['#include "cudart/cudart_abi.h"'],
        known,
        tmp_path / "ours",
        [f"-I{ROOT / 'native'}", f"-DCUDART_VERSION={major}000"],
    )
    assert own == facts(their_lines, known, tmp_path / "theirs", [f"-I{folder}"])


def test_results_have_nvidias_names_and_values(header: tuple[int, Path]) -> None:
    _, folder = header
    theirs = {
        int(value): name
        for name, value in re.findall(
            r"^\s*(cudaError\w+)\s*=\s*(\d+)", (folder / "driver_types.h").read_text(), re.MULTILINE
        )
    }
    ours = {
        int(value): f"cudaError{name}"
        for value, name in re.findall(
            r"^(?:OWN_)?ERROR\((\d+), (\w+)", (CUDART / "errors.def").read_text(), re.MULTILINE
        )
    }
    assert {value: ours[value] for value in ours if value in theirs} == {
        value: theirs[value] for value in ours if value in theirs
    }
    assert len(ours.keys() & theirs.keys()) > 100


@pytest.mark.parametrize("major", [12, 13])
def test_every_function_bears_the_version_that_programs_ask_for(major: int) -> None:
    elf = pytest.importorskip("elftools.elf.elffile")
    native = native_dir()
    if native is None or not (native / "cudart").exists():
        pytest.skip("the native libraries are not built: make test builds them")
    with (native / "cudart" / f"libcudart.so.{major}").open("rb") as file:
        read = elf.ELFFile(file)
        versions = read.get_section_by_name(".gnu.version")
        named = {
            index: next(auxiliaries).name
            for index, (_, auxiliaries) in enumerate(
                read.get_section_by_name(".gnu.version_d").iter_versions(), start=1
            )
        }
        exported = {
            symbol.name: versions.get_symbol(i)["ndx"]
            for i, symbol in enumerate(read.get_section_by_name(".dynsym").iter_symbols())
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["type"] == "STT_FUNC"
        }
    assert {"cudaMalloc", "cudaMemcpyAsync_ptsz", "__cudaRegisterFatBinary"} <= exported.keys()
    assert {named[index] for index in exported.values()} == {f"libcudart.so.{major}"}
