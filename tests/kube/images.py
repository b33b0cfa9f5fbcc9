"""Images without a registry: an archive as `docker save` writes it, made of files."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.kube import setup
from tests.kube.programs import PAUSE

BUSYBOX: Final = "moiety.test/busybox:1"
APPLETS: Final = (
    *("cat", "cp", "date", "echo", "env", "false", "grep", "head", "id", "kill", "ls", "mkdir"),
    *("mount", "mv", "nc", "printf", "ps", "rm", "sh", "sleep", "stat", "tail", "test", "touch"),
    *("true", "wc", "wget"),
)
FOLDERS: Final = ("bin", "dev", "etc", "proc", "sys", "tmp")


def layer(files: Mapping[str, Path | str | bytes]) -> bytes:
    """A tar archive: by the path inside, a file or folder here, a link's target, or content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in FOLDERS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(entry)
        for name, content in files.items():
            if isinstance(content, Path):
                archive.add(content, name)
                continue
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def write(
    out: Path, name: str, layers: Iterable[bytes], command: Sequence[str], env: Sequence[str] = ()
) -> Path:
    """An image of that name, in the file `out`, for `ctr image import`."""
    kept = list(layers)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": list(command), "Env": ["PATH=/bin", *env]},
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(part).hexdigest()}" for part in kept],
            },
        }
    ).encode()
    names = [f"{hashlib.sha256(part).hexdigest()}.tar" for part in kept]
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": names}]
    contents = [
        ("config.json", config),
        ("manifest.json", json.dumps(manifest).encode()),
        *zip(names, kept, strict=True),
    ]
    with tarfile.open(out, "w") as archive:
        for path, content in contents:
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out


def busybox() -> bytes:
    """A layer with busybox and the commands that it has."""
    found = setup.program("busybox")
    if found is None:
        raise FileNotFoundError("busybox is not in the cache: make kube-bed gets it")
    return layer({"bin/busybox": found} | {f"bin/{name}": "busybox" for name in APPLETS})


def write_usual(folder: Path) -> list[Path]:
    """What every bed has: what holds a pod's namespaces, and busybox."""
    files, forever = busybox(), ("/bin/busybox", "sleep", "2147483647")
    return [
        write(folder / "pause.tar", PAUSE, [files], forever),
        write(folder / "busybox.tar", BUSYBOX, [files], ("/bin/sh",)),
    ]
