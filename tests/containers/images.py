"""Images, as folders: a C library, the worker of the demo, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.containers import setup
from tests.support.native import compile_c

ROOT: Final = Path(__file__).resolve().parents[2]
GLIBC: Final = "x86_64-linux-gnu.2.17"
MUSL: Final = "x86_64-linux-musl"
FOLDERS: Final = ("app", "dev", "etc", "proc", "sys", "tmp")
PROGRAMS: Final = ("/bin/sh", "/bin/sleep")
LIBRARIES: Final = ("libdl.so.2", "libpthread.so.0", "libm.so.6")
_FOUND: Final = re.compile(r"(/\S+) \(0x")


def worker(folder: Path, native: Path, *, linked: bool = False, target: str = GLIBC) -> Path:
    """The worker: linked with the driver, or looking it up."""
    driver = native / "simgpu" / "libcuda.so.1"
    # Libraries that the driver needs are the image's, not the compiler's.
    how = (str(driver), "-Wl,--allow-shlib-undefined") if linked else ("-DLOOKUP",)
    flags = ("-target", target, f"-I{ROOT / 'native'}", *how)
    flags += ("-dynamic",) if target == MUSL else ("-ldl", "-lpthread")
    name = "worker-linked" if linked else "worker"
    return compile_c([ROOT / "demo" / "worker.c"], folder / name, flags=flags)


def bare(folder: Path) -> Path:
    """Nothing but the folders that every image has."""
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # it becomes the root of an image, which all its users may enter
    return folder


def of_host(folder: Path) -> Path:
    """The C library of this machine, a shell and `sleep`."""
    bare(folder)
    for program in PROGRAMS:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        needed = _FOUND.findall(said)
        libc = next(Path(path) for path in needed if "libc.so" in path)
        for path in [program, *needed, *(str(libc.parent / name) for name in LIBRARIES)]:
            target = folder / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)  # what a link leads to
    return folder


def of_package(folder: Path, package: Path) -> Path:
    """The C library of a Debian package."""
    bare(folder)
    subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
    return folder


def with_worker(folder: Path, native: Path, target: str = GLIBC) -> Path:
    """An image with the workers and their kernels in it."""
    worker(folder / "app", native, target=target)
    if target != MUSL:
        worker(folder / "app", native, linked=True, target=target)
    shutil.copy(native / "simgpu" / "kernels.elf", folder / "app")
    return folder


def old_glibc() -> Path | None:
    """The package with a glibc from before its parts were put together (2.34)."""
    return setup.package("libc6", setup.OLD_SUITE)
