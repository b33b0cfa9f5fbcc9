"""Writes the container image, `docker load` and `ctr image import` take it: no registry, no docker.

    python tools/image.py WHEEL OUT.tar [NAME:TAG]

Two layers: this machine's Python with the libraries that it links, and what the wheel brings along.
Owner, order and times are fixed, so that the same wheel on the same machine is the same image. For
production, the Containerfile makes one from a base image that somebody maintains.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = "opt/python"
SITE = "opt/moiety"
LEFT_OUT = (
    "__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3",
    "site-packages", "dist-packages",
)  # fmt: skip
LEFT_OUT_PREFIXES = ("config-",)
LOADER = Path("/lib64/ld-linux-x86-64.so.2")
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
GROUP = b"root:x:0:\nnogroup:x:65534:\n"
LAUNCHER = b"#!/usr/bin/python3\nfrom moiety.cli.main import main\nmain()\n"


class Layer:
    """A tar archive whose bytes depend on its content only."""

    def __init__(self) -> None:
        self._files: dict[str, bytes | Path | str] = {}
        self._modes: dict[str, int] = {}

    def put(self, name: str, content: bytes | Path | str, mode: int = 0o644) -> None:
        """A file of this content, or as this one; a link, if the content is a text."""
        self._files[name], self._modes[name] = content, mode

    def tree(self, name: str, folder: Path) -> None:
        """A folder with all below it, without what nobody needs."""
        for file in _files(folder):
            mode = 0o755 if os.access(file, os.X_OK) else 0o644
            self.put(f"{name}/{file.relative_to(folder)}", file.resolve(), mode)

    def data(self) -> bytes:
        """The archive."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for folder in sorted({str(p) for f in self._files for p in list(Path(f).parents)[:-1]}):
                archive.addfile(_entry(folder, tarfile.DIRTYPE, 0o755))
            for name, content in sorted(self._files.items()):
                if isinstance(content, str):
                    link = _entry(name, tarfile.SYMTYPE, 0o777)
                    link.linkname = content
                    archive.addfile(link)
                    continue
                read = content if isinstance(content, bytes) else content.read_bytes()
                entry = _entry(name, tarfile.REGTYPE, self._modes[name])
                entry.size = len(read)
                archive.addfile(entry, io.BytesIO(read))
        return out.getvalue()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.mode = kind, mode
    return found


def _files(folder: Path) -> Iterator[Path]:
    for found in sorted(folder.iterdir()):
        if found.name in LEFT_OUT or found.name.startswith(LEFT_OUT_PREFIXES):
            continue
        if found.is_dir():
            yield from _files(found)
        elif found.is_file() and found.suffix not in (".pyc", ".a"):
            yield found


def linked(files: Iterable[Path]) -> set[Path]:
    """The libraries that these load, and those that they do, by the paths where they are found."""
    found: set[Path] = set()
    for file in files:
        told = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False)
        for line in told.stdout.splitlines():
            words = line.split()
            path = words[2] if len(words) > 2 and words[1] == "=>" else words[0]
            if path.startswith("/"):
                found.add(Path(path))
    return found


def base() -> Layer:
    """This machine's Python, and the libraries that it links."""
    layer = Layer()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    executable = Path(sys.executable).resolve()
    library = Path(sysconfig.get_paths()["stdlib"])
    layer.put(f"{HOME}/bin/{version}", executable, 0o755)
    layer.tree(f"{HOME}/lib/{version}", library)
    layer.put("usr/bin/python3", f"/{HOME}/bin/{version}")
    extensions = sorted((library / "lib-dynload").glob("*.so"))
    for file in {*linked([executable, *extensions]), LOADER}:
        layer.put(str(file).lstrip("/"), file.resolve(), 0o755)
    layer.put("etc/passwd", PASSWD)
    layer.put("etc/group", GROUP)
    shell = Path("/bin/busybox")
    if shell.exists() and not linked([shell]):  # static: for whoever looks into the container
        layer.put("bin/busybox", shell, 0o755)
        for name in ("sh", "ls", "cat", "ps"):
            layer.put(f"bin/{name}", "busybox")
    return layer


def product(wheel: Path) -> Layer:
    """The wheel, and what it brings along."""
    layer = Layer()
    with tempfile.TemporaryDirectory() as scratch:
        site = Path(scratch) / "site"
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--no-compile", "--only-binary=:all:", "--target", str(site),
             "-c", str(ROOT / "tools" / "constraints.txt"), f"{wheel}[kube]"],
            check=True,
        )  # fmt: skip
        for file in _files(site):
            if "bin" not in file.relative_to(site).parts[:1]:
                mode = 0o755 if os.access(file, os.X_OK) else 0o644
                layer.put(f"{SITE}/{file.relative_to(site)}", file.read_bytes(), mode)
        for file in linked(sorted(site.rglob("*.so*"))):
            if site not in file.parents and file.exists():
                layer.put(str(file).lstrip("/"), file.resolve(), 0o755)
    layer.put("usr/bin/moiety", LAUNCHER, 0o755)
    return layer


def image(layers: list[bytes], name: str) -> bytes:
    """An archive as `docker save` writes it."""
    digests = [hashlib.sha256(each).hexdigest() for each in layers]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/moiety"],
            "Env": ["PATH=/usr/bin:/bin", f"PYTHONPATH=/{SITE}", "PYTHONDONTWRITEBYTECODE=1",
                    "PYTHONUNBUFFERED=1", "LANG=C.UTF-8"],
            "Labels": {"org.opencontainers.image.title": "moiety",
                       "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{each}" for each in digests]},
    }  # fmt: skip
    text = json.dumps(config, sort_keys=True).encode()
    config_name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [
        {
            "Config": config_name,
            "RepoTags": [name],
            "Layers": [f"{each}.tar" for each in digests],
        }
    ]
    out = io.BytesIO()
    contents = [(config_name, text), ("manifest.json", json.dumps(manifest).encode())]
    contents += [(f"{digest}.tar", each) for digest, each in zip(digests, layers, strict=True)]
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, content in contents:
            entry = _entry(path, tarfile.REGTYPE, 0o644)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def main(arguments: list[str]) -> int:
    """Write it, and say how large it is."""
    if len(arguments) not in (2, 3):
        print(__doc__)
        return 64
    wheel, out = Path(arguments[0]), Path(arguments[1])
    name = arguments[2] if len(arguments) == 3 else "docker.io/library/moiety:latest"
    written = image([base().data(), product(wheel).data()], name)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(written)
    print(f"{out}: {name}, {len(written) >> 20} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
