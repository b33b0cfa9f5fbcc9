"""Puts PyTorch, CuPy, Numba and JAX where the tests find them: in a cache outside the checkout.

    python tests/frameworks/setup.py [12 | 13]      for which CUDA; 12, if nothing is said

Each is in an environment of its own. What is there already is used. Exit code 0 also where packages
cannot be had: then their tests say so and are skipped.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.frameworks import stubs
from tests.support.native import cache_dir

HERE = Path(__file__).resolve().parent
DOWNLOAD_S = 900
INSIDE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
NAMES = {"torch": "PyTorch", "cupy": "CuPy", "numba": "Numba's numba-cuda", "jax": "JAX"}
VERSIONS = (12, 13)
"""of CUDA"""


class Recipe(NamedTuple):
    """What is installed together."""

    name: str
    """of the environment's folder"""
    packages: Path
    """a list for pip"""
    beside: tuple[str, ...]
    """what pip is asked for besides"""
    stubbed: str | None
    """the folder in site-packages whose libraries name NVIDIA's; None: it needs none"""


RECIPES = {
    ("torch", 12): Recipe("torch-2.5.1", HERE / "packages/torch.txt", ("torch==2.5.1",), "torch"),
    ("torch", 13): Recipe("torch-2.15.0", HERE / "packages/torch.txt", ("torch==2.15.0",), "torch"),
    ("cupy", 12): Recipe("cupy-cuda12", HERE / "packages/cupy-12.txt", (), "."),
    ("numba", 12): Recipe("numba-cuda12", HERE / "packages/numba-12.txt", (), None),
    ("numba", 13): Recipe("numba-cuda13", HERE / "packages/numba-13.txt", (), None),
    ("jax", 12): Recipe("jax-cuda12", HERE / "packages/jax-12.txt", (), None),
    ("jax", 13): Recipe("jax-cuda13", HERE / "packages/jax-13.txt", (), None),
}
"""By framework and version of CUDA."""
MISSING = {
    ("cupy", 13): "CuPy for CUDA 13 contains NVIDIA's runtime, which ends on simgpu",
}
"""What there cannot be, and why."""


class Environment(NamedTuple):
    """Where a framework is."""

    python: Path
    libraries: Path | None
    """those that do nothing"""


class CannotBeHadError(Exception):
    """The packages cannot be had here."""


def cuda() -> int:
    """The version of CUDA that the tests are for (`make test-frameworks CUDA=13`).

    Raises:
        ValueError: it is none of them.
    """
    said = os.environ.get("MOIETY_TEST_CUDA") or str(VERSIONS[0])
    if said not in map(str, VERSIONS):
        raise ValueError(f"CUDA={said}: choose one of {', '.join(map(str, VERSIONS))}")
    return int(said)


def folder(recipe: Recipe) -> Path:
    """Where the environment for this Python and these packages is, or would be."""
    digest = hashlib.sha256(recipe.packages.read_bytes()).hexdigest()[:8]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return cache_dir() / "frameworks" / f"{recipe.name}-python{python}-{digest}"


def libraries(place: Path) -> Path:
    """Where the libraries that do nothing are, or would be."""
    digest = hashlib.sha256()
    for name in ("stubs.py", "elf.py"):
        digest.update((HERE / name).read_bytes())
    return place / f"libraries-{digest.hexdigest()[:8]}"


def found(framework: str = "torch", version: int = 12) -> Environment | None:
    """The environment, if it is there."""
    recipe = RECIPES.get((framework, version))
    if recipe is None:
        return None
    place = folder(recipe)
    python, made = place / "bin" / "python", libraries(place) if recipe.stubbed else None
    return Environment(python, made) if python.exists() and (not made or made.is_dir()) else None


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


def install(place: Path, recipe: Recipe) -> None:
    """Make the environment, all of it or nothing."""
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".") as name:
        # An environment does not like to be moved; the interpreter in it does not mind.
        new = Path(name) / "new"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(new)], check=True)
        pip("-r", str(recipe.packages), into=new)
        if recipe.beside:
            pip(*recipe.beside, into=new)
        if place.exists():
            shutil.rmtree(place)
        new.rename(place)


def set_up(framework: str = "torch", version: int = 12) -> Environment:
    """The environment; made where it is not there.

    Raises:
        CannotBeHadError: the packages cannot be had.
    """
    if (framework, version) in MISSING:
        raise CannotBeHadError(MISSING[framework, version])
    recipe = RECIPES[framework, version]
    place = folder(recipe)
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "bin" / "python").exists():
            print(f"setting up: {recipe.name}, in {place}", flush=True)
            began_s = time.monotonic()
            install(place, recipe)
            print(f"setting up: {time.monotonic() - began_s:.0f} s", flush=True)
        made = libraries(place) if recipe.stubbed else None
        if recipe.stubbed and made and not made.is_dir():
            with tempfile.TemporaryDirectory(dir=place, prefix=".") as name:
                new = Path(name) / "new"
                stubs.main(place / INSIDE / recipe.stubbed, new)
                new.rename(made)
    return Environment(place / "bin" / "python", made)


def main(arguments: list[str]) -> int:
    """Say what there is."""
    version = int(arguments[0]) if arguments else VERSIONS[0]
    if version not in VERSIONS:
        print(f"CUDA {version}: choose one of {', '.join(map(str, VERSIONS))}", file=sys.stderr)
        return 2
    for framework, name in NAMES.items():
        try:
            environment = set_up(framework, version)
        except CannotBeHadError as error:
            print(f"skipped: {name} for CUDA {version} cannot be had here: {error}")
        else:
            print(f"{name} for CUDA {version} is in {environment.python.parents[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
