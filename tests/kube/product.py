"""The product's own image, as `make image` writes it, and another build of it to upgrade to.

It is made once for what is in the checkout, in the cache. Where the bed is there is no network, so
`make kube-bed` fetches what the image needs beside the product.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.native import cache_dir

ROOT: Final = Path(__file__).resolve().parents[2]
NAME: Final = "docker.io/library/moiety"
PARTS: Final = ("src", "native", "tools", "CMakeLists.txt", "pyproject.toml")
LEFT_OUT: Final = ("__pycache__", ".pyc")
BUILD_S: Final = 1200


def wheels() -> Path:
    """Where the packages are that the product needs, as the constraints have them."""
    said = (ROOT / "tools" / "constraints.txt").read_bytes() + sys.version.encode()
    return cache_dir() / f"kube-wheels-{hashlib.sha256(said).hexdigest()[:16]}"


def fetch_wheels() -> None:
    """Fetch them; raises CalledProcessError."""
    if wheels().exists():
        return
    print("setting up: packages for the product's image", flush=True)
    wheels().parent.mkdir(parents=True, exist_ok=True)
    asked = [sys.executable, "tools/requirements.py", "kube"]
    lines = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(dir=wheels().parent, prefix=".") as scratch:
        into = Path(scratch) / "wheels"
        pip("download", "--only-binary=:all:", "-c", "tools/constraints.txt", "--dest", str(into),
            *lines.split("\n")[:-1])  # fmt: skip
        into.rename(wheels())


def pip(*arguments: str, **env: str) -> None:
    """Run pip in the checkout."""
    command = [sys.executable, "-m", "pip", arguments[0], "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*command, *arguments[1:]],
        cwd=ROOT, env={**os.environ, **env}, timeout=BUILD_S, check=True,
    )  # fmt: skip


def image() -> Path:
    """The archive with the image of what is in the checkout."""
    place = cache_dir() / "kube-image"
    found = place / f"{stamp()}.tar"
    if found.exists():
        return found
    place.mkdir(parents=True, exist_ok=True)
    for old in place.glob("*.tar"):
        old.unlink()
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        build = f"build-dir={place}/build"
        pip("wheel", "--no-deps", "--no-build-isolation", "--config-settings", build,
            "--wheel-dir", scratch, ".")  # fmt: skip
        (wheel,) = Path(scratch).glob("*.whl")
        made = Path(scratch) / "image.tar"
        subprocess.run(
            [sys.executable, "tools/image.py", str(wheel), str(made), f"{NAME}:latest"],
            cwd=ROOT,
            env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels())},
            timeout=BUILD_S,
            check=True,
        )
        made.rename(found)
    return found


def stamp() -> str:
    """What tells one content of the checkout from another."""
    found = hashlib.sha256(sys.version.encode())
    for file in sorted(_files()):
        found.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def _files() -> Iterator[Path]:
    for part in PARTS:
        at = ROOT / part
        for file in [at] if at.is_file() else at.rglob("*"):
            if file.is_file() and not any(out in str(file) for out in LEFT_OUT):
                yield file


def next_image(archive: Path, out: Path, tag: str) -> Path:
    """The same image as another build of it would be: its libraries are not the same files."""
    with tarfile.open(archive) as old:
        contents = {each.name: _read(old, each) for each in old.getmembers()}
    (manifest,) = json.loads(contents["manifest.json"])
    product = manifest["Layers"][-1]
    layers = [contents[name] for name in manifest["Layers"][:-1]] + [again(contents[product])]
    out.write_bytes(importlib.import_module("tools.image").image(layers, f"{NAME}:{tag}"))
    return out


def again(layer: bytes) -> bytes:
    """A layer in which each of our libraries ends with a few bytes more, which nobody loads."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(layer)) as old, tarfile.open(fileobj=out, mode="w") as new:
        for entry in old:
            if not entry.isfile():
                new.addfile(entry)
                continue
            read = _read(old, entry)
            if entry.name.endswith("libmoiety.so"):
                read += b"the next build"
                entry.size = len(read)
            new.addfile(entry, io.BytesIO(read))
    return out.getvalue()


def _read(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    found = archive.extractfile(entry)
    assert found is not None, entry.name
    with found:
        return found.read()


def can_be_made() -> str:
    """Why the image cannot be made here; empty: it can."""
    if not wheels().exists():
        return "what the product's image needs was not fetched (make kube-bed does that)"
    if shutil.which("ldd") is None:
        return "ldd is not here"
    return ""
