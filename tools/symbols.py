"""Checks what built libraries ask of a machine: symbols.py FOLDER, which has libmoiety.so in it.

It must load wherever CUDA does: no symbol newer than glibc 2.17, no library but libc and libdl, and
nothing exported that is not meant to be found.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

NEWEST_GLIBC = (2, 17)
LIBRARIES = {"libc.so.6", "libdl.so.2"}
EXPORTS = re.compile(
    r"cu[A-Z]\w+|dlopen|dlsym|dlvsym|__cu[A-Z]\w+|moiety_\w+"
    r"|nvmlDeviceGet(MemoryInfo|Count|Index|TopologyNearestGpus|HandleBy(Index|UUID|Serial|PciBusId))"
    r"(_v2)?"
)
AGENT_LIBRARIES = {"libc.so.6", "libpthread.so.0"}
PROGRAMS = ("moiety-supervisor", "moiety-starter", "moiety-tasks")
PROGRAM_LIBRARIES = {"libc.so.6"}
AGENT_EXPORTS = re.compile(r"moiety_agent_\w+")
SIMGPU = ("libcuda.so.1", "libnvidia-ml.so.1")
SIMGPU_LIBRARIES = LIBRARIES | {
    "libpthread.so.0",
    "libm.so.6",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
}


def needed(elf: ELFFile) -> set[str]:
    """The libraries that the loader must find."""
    section = elf.get_section_by_name(".dynamic")
    assert isinstance(section, DynamicSection)
    return {tag.needed for tag in section.iter_tags("DT_NEEDED")}  # type: ignore[attr-defined]


def versions(elf: ELFFile) -> set[str]:
    """The symbol versions that it asks of them, such as GLIBC_2.17."""
    section = elf.get_section_by_name(".gnu.version_r")
    if section is None:
        return set()
    assert isinstance(section, GNUVerNeedSection)
    return {one.name for _, found in section.iter_versions() for one in found}


def exports(elf: ELFFile) -> set[str]:
    """The names that others can find in it."""
    section = elf.get_section_by_name(".dynsym")
    assert isinstance(section, SymbolTableSection)
    return {
        symbol.name
        for symbol in section.iter_symbols()
        if symbol.entry.st_shndx != "SHN_UNDEF" and symbol.entry.st_info.bind == "STB_GLOBAL"
    }


def complaints(file: Path, libraries: set[str], may_export: re.Pattern[str] | None) -> list[str]:
    """What one library asks that it should not."""
    if not file.exists():
        return [f"{file} was not built"]
    with file.open("rb") as stream:
        elf = ELFFile(stream)
        found = [f"links {name}" for name in sorted(needed(elf) - libraries)]
        for version in sorted(versions(elf)):
            number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
            if not number or (int(number[1]), int(number[2])) > NEWEST_GLIBC:
                found.append(f"needs {version}")
        if may_export:
            found += [f"exports {n}" for n in sorted(exports(elf)) if not may_export.fullmatch(n)]
    return [f"{file.name} {what}" for what in found]


def main() -> int:
    folder = Path(sys.argv[1])
    said = complaints(folder / "libmoiety.so", LIBRARIES, EXPORTS)
    said += complaints(folder / "libmoiety-agent.so", AGENT_LIBRARIES, AGENT_EXPORTS)
    for name in PROGRAMS:
        said += complaints(folder / name, PROGRAM_LIBRARIES, None)
    for name in SIMGPU:
        said += complaints(folder / "simgpu" / name, SIMGPU_LIBRARIES, None)
    print("\n".join(said))
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
