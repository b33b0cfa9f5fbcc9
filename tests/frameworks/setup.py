"""Puts PyTorch where the tests find it: an environment of its own, in a cache outside the checkout.

    python tests/frameworks/setup.py [VERSION]

What is there already is used. Exit code 0 also where the packages cannot be had: then the tests
say so and are skipped.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from moiety.testing.native import cache_dir
from tests.frameworks import stubs

HERE = Path(__file__).resolve().parent
VERSION = "2.5.1"
"""of PyTorch"""
DOWNLOAD_S = 900
INSIDE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


class Environment(NamedTuple):
    """Where PyTorch is."""

    python: Path
    libraries: Path
    """those that do nothing"""


class CannotBeHadError(Exception):
    """The packages cannot be had here."""


def folder(version: str = VERSION) -> Path:
    """Where the environment for this Python and these packages is, or would be."""
    digest = hashlib.sha256((HERE / "packages.txt").read_bytes()).hexdigest()[:8]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cache_dir() / "frameworks" / f"torch-{version}-python{python}-{digest}"


def libraries(place: Path) -> Path:
    """Where the libraries that do nothing are, or would be."""
    digest = hashlib.sha256()
    for name in ("stubs.py", "elf.py"):
        digest.update((HERE / name).read_bytes())
    return place / f"libraries-{digest.hexdigest()[:8]}"


def found(version: str = VERSION) -> Environment | None:
    """The environment, if it is there."""
    place = folder(version)
    python, made = place / "bin" / "python", libraries(place)
    return Environment(python, made) if python.exists() and made.is_dir() else None


def pip(*arguments: str, into: Path) -> None:
    """Pip, for an environment that has none.

    Raises:
        CannotBeHadError: what it was asked for is not there.
    """
    command = [sys.executable, "-m", "pip", f"--python={into / 'bin' / 'python'}", "--quiet"]
    command += [
        "--disable-pip-version-check",
        "--no-cache-dir",
        "install",
        "--no-deps",
        "--prefer-binary",
    ]
    done = subprocess.run(
        [*command, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=DOWNLOAD_S,
        check=False,
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise CannotBeHadError(said[-1] if said else f"pip ended with {done.returncode}")


def install(place: Path, version: str) -> None:
    """Make the environment, all of it or nothing."""
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".") as name:
        # An environment does not like to be moved; the interpreter in it does not mind.
        new = Path(name) / "new"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(new)], check=True)
        pip("-r", str(HERE / "packages.txt"), into=new)
        pip(f"torch=={version}", into=new)
        if place.exists():
            shutil.rmtree(place)
        new.rename(place)


def set_up(version: str = VERSION) -> Environment:
    """The environment; made where it is not there.

    Raises:
        CannotBeHadError: the packages cannot be had.
    """
    place = folder(version)
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "bin" / "python").exists():
            print(f"setting up: PyTorch {version}, in {place}", flush=True)
            began_s = time.monotonic()
            install(place, version)
            print(f"setting up: {time.monotonic() - began_s:.0f} s", flush=True)
        made = libraries(place)
        if not made.is_dir():
            with tempfile.TemporaryDirectory(dir=place, prefix=".") as name:
                new = Path(name) / "new"
                stubs.main(place / INSIDE / "torch", new)
                new.rename(made)
    return Environment(place / "bin" / "python", made)


def main(arguments: list[str]) -> int:
    """Say what there is."""
    try:
        environment = set_up(*arguments[:1])
    except CannotBeHadError as error:
        print(f"skipped: PyTorch cannot be had here: {error}")
        return 0
    print(f"PyTorch is in {environment.python.parents[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
