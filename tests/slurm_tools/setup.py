"""Puts submitit, dask-jobqueue and Snakemake where the tests find them: in a cache.

    python tests/slurm_tools/setup.py

What is there already is used. Exit code 0 also where they cannot be had: then the tests say so and
are skipped.
"""

from __future__ import annotations

import fcntl
import hashlib
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.frameworks.setup import CannotBeHadError, Recipe, install
from tests.support.native import cache_dir

PACKAGES: Final = Path(__file__).resolve().parent / "packages" / "tools.txt"
RECIPE: Final = Recipe("slurm-tools", PACKAGES, (), None)


def folder() -> Path:
    """Where the environment for this Python and these packages is, or would be."""
    digest = hashlib.sha256(PACKAGES.read_bytes()).hexdigest()[:8]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cache_dir() / "slurm-tools" / f"python{python}-{digest}"


def found() -> Path | None:
    """The interpreter of the environment, if it is there."""
    python = folder() / "bin" / "python"
    return python if python.exists() else None


def set_up() -> Path:
    """The interpreter of the environment, which is made where it is not there.

    Raises:
        CannotBeHadError: the packages cannot be had.
    """
    place = folder()
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "bin" / "python").exists():
            print(f"setting up: {RECIPE.name}, in {place}", flush=True)
            began_s = time.monotonic()
            install(place, RECIPE)
            print(f"setting up: {time.monotonic() - began_s:.0f} s", flush=True)
    return place / "bin" / "python"


def main() -> int:
    """Set up what can be had."""
    try:
        print(f"the tools are in {set_up().parents[1]}")
    except CannotBeHadError as error:
        print(f"skipped: submitit, dask-jobqueue and Snakemake cannot be had here: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
