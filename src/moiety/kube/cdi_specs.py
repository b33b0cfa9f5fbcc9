"""The CDI specifications of shares that pods have: one file each, for containerd and CRI-O."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moiety.agent.system import cdi
from moiety.devices.gpu_models import Card
from moiety.kube.checkpoint import write_durably
from moiety.model.errors import FileNotWritable

USUAL_DIR: Final = Path("/var/run/cdi")
PREFIX: Final = "k8s-"
"""The prefix of the names of pods' shares."""
READABLE: Final = 0o644
_CARD_NODE: Final = re.compile(r"/dev/nvidia(\d+)")


@dataclass(frozen=True, slots=True)
class Parts:
    """The files that containers mount, under the paths that the container runtime sees."""

    shim: Path
    driver: Path


class CdiSpecs:
    """The folder with the CDI specifications."""

    def __init__(self, folder: Path, parts: Parts, *, hook: bool) -> None:
        """`hook`: the runtime checks each image before it starts, with moiety's Python."""
        self.folder = folder
        self.parts = parts
        self._hook = hook

    def path(self, name: str) -> Path:
        """The path of a share's file."""
        return self.folder / f"moiety-{name}.json"

    def write(self, name: str, files: Path, cards: Sequence[Card]) -> str:
        """Write how a container gets this share; returns what to ask the runtime for.

        `files` is the share's folder. A file that says the same already is left alone.
        Raises FileNotWritable.
        """
        text = json.dumps(self._specification(name, files, cards), indent=2) + "\n"
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not _says(path, text):
                write_durably(path, text.encode(), READABLE)
        except OSError as error:
            raise FileNotWritable(str(path), error.strerror or str(error)) from None
        return self.device(name)

    def remove(self, name: str) -> None:
        """Remove a share's file; raises FileNotWritable."""
        path = self.path(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise FileNotWritable(str(path), error.strerror or str(error)) from None

    def sweep(self, names: Collection[str]) -> list[str]:
        """Remove the files of pods' shares that are not in `names`; returns the removed names."""
        gone = []
        for path in self.folder.glob(f"moiety-{PREFIX}*.json"):
            name = path.name.removeprefix("moiety-").removesuffix(".json")
            if name not in names:
                self.remove(name)
                gone.append(name)
        for path in self.folder.glob(f".moiety-{PREFIX}*.new"):
            with contextlib.suppress(OSError):  # of a process that was killed while it wrote
                path.unlink()
        return gone

    @staticmethod
    def device(name: str) -> str:
        """The CDI device that a container asks the runtime for."""
        return f"{cdi.KIND}={name}"

    def _specification(self, name: str, files: Path, cards: Sequence[Card]) -> dict[str, Any]:
        found = cdi.edits(files, self.parts.shim, self.parts.driver, alone=True)
        minors = {card.index if card.minor is None else card.minor for card in cards}
        found.devices[:] = [node for node in found.devices if _is_of(node, minors)]
        uuids = ",".join(card.uuid for card in cards)
        found.environment["CUDA_VISIBLE_DEVICES"] = uuids
        found.environment["NVIDIA_VISIBLE_DEVICES"] = "void"  # NVIDIA's own runtime adds nothing
        specification = cdi.specification(name, found)
        edits = specification["devices"][0]["containerEdits"]
        del edits["hooks"]
        if self._hook:
            edits["hooks"] = [cdi.image_hook()]
        return specification


def install(shim: Path, driver: Path, simulated: bool, into: Path | None) -> Parts:
    """Copy the files that containers mount to where the runtime finds them; None: nothing to copy.

    The runtime does not see the files inside this pod. Each build has a folder named by its
    content: running containers keep the folder that they have mounted. Raises FileNotWritable.
    """
    if into is None:
        return Parts(shim, driver)
    digest = hashlib.sha256(shim.read_bytes() + (driver.read_bytes() if simulated else b""))
    folder = into / digest.hexdigest()[:16]
    try:
        for file in [shim, *(sorted(driver.parent.glob("lib*.so*")) if simulated else [])]:
            target = folder / ("simgpu" if file.parent != shim.parent else "") / file.name
            if target.exists() and target.stat().st_size == file.stat().st_size:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(target.name + ".new")
            shutil.copyfile(file, partial)
            os.chmod(partial, 0o755)
            os.replace(partial, target)
    except OSError as error:
        raise FileNotWritable(str(folder), error.strerror or str(error)) from None
    return Parts(folder / shim.name, folder / "simgpu" / driver.name if simulated else driver)


def _is_of(node: str, minors: Collection[int]) -> bool:
    card = _CARD_NODE.fullmatch(node)
    return card is None or int(card[1]) in minors


def _says(path: Path, text: str) -> bool:
    try:
        return path.read_text() == text
    except (OSError, UnicodeDecodeError):
        return False
