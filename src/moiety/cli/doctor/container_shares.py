"""The findings of `moiety doctor` about specifications that give containers a share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from moiety.agent.control import protocol
from moiety.agent.system import cdi
from moiety.agent.system.paths import find
from moiety.cli.doctor.finding import Finding
from moiety.cli.doctor.talk import talk
from moiety.cli.output import count
from moiety.model import errors

ABOUT: Final = "container shares"


def shares(folders: Iterable[Path] | None = None) -> Iterator[Finding]:
    """Whether containers that ask for a share would get it."""
    specs = written(folders or dict.fromkeys((cdi.SYSTEM_DIR, cdi.default_dir())))
    if not specs:
        return
    try:
        with talk(find()) as call:
            rows = call.ask(protocol.Containers(), protocol.ContainerRows).rows
    except errors.MoietyError as error:
        text = f"containers with {', '.join(sorted(specs))} do not start now: {error.what}"
        yield Finding(ABOUT, "warn", text, error.hint)
        return
    known = {row.name for row in rows}
    for name, (file, sources) in sorted(specs.items()):
        if gone := [source for source in sources if not Path(source).exists()]:
            hint = f"moiety container spec --name {name} with its options writes it again"
            yield Finding(ABOUT, "warn", f"{file} names {gone[0]}, which does not exist", hint)
        elif name not in known:
            hint = f"make it again (moiety container spec --name {name}), or remove the file"
            yield Finding(
                ABOUT, "warn", f"{file} names a share that this agent does not have", hint
            )
    good = len(known & specs.keys())
    yield Finding(ABOUT, "ok", f"{count(good, 'share')} of this agent can be had by containers")


def written(folders: Iterable[Path]) -> dict[str, tuple[Path, list[str]]]:
    """Moiety's specifications in these folders, and the paths that they mount, by share."""
    found = {}
    for folder in folders:
        for file in sorted(folder.glob("moiety-*.json")):
            try:
                spec = json.loads(file.read_text())
                if spec["kind"] == cdi.KIND:
                    (device,) = spec["devices"]
                    mounts = device["containerEdits"]["mounts"]
                    found[device["name"]] = (file, [mount["hostPath"] for mount in mounts])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # not moiety's, or the container runtime reports the error
    return found
