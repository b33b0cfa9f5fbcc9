"""Kubeconfig files: which there are, how several are one, and what a context of them names.

As kubectl has it: the first file that has an entry counts for all of that entry, and a relative
path begins at the file that it is written in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

USUAL: Final = "~/.kube/config"
GROUPS: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}
PATHS: Final = {
    "clusters": ("certificate-authority",),
    "contexts": (),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
"""Fields that are paths of files."""

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Selection:
    """What a context names; paths are absolute."""

    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    namespace: str


def files(environment: Mapping[str, str]) -> list[Path]:
    """The files of $KUBECONFIG or else the usual one, as far as they exist."""
    named = environment.get("KUBECONFIG")
    paths = named.split(os.pathsep) if named else [os.path.expanduser(USUAL)]
    return [Path(each) for each in paths if each and Path(each).exists()]


def select(paths: Iterable[Path], context: str = "") -> Selection:
    """What a context of these files names; `context` empty: the current one.

    Raises OSError for a file that is not readable, and ValueError, KeyError or TypeError for what
    makes no sense in it.
    """
    merged: dict[str, dict[str, Entry]] = {group: {} for group in GROUPS}
    current = ""
    for path in paths:
        read = _read(path)
        current = current or str(read.get("current-context") or "")
        for group, kind in GROUPS.items():
            for each in read.get(group) or []:
                entry = _absolute(each.get(kind) or {}, PATHS[group], path.absolute().parent)
                merged[group].setdefault(str(each["name"]), entry)
    chosen = _named(merged, "contexts", context or current)
    user = _named(merged, "users", chosen["user"]) if chosen.get("user") else {}
    cluster = _named(merged, "clusters", chosen["cluster"])
    return Selection(cluster, user, chosen.get("namespace") or "default")


def _named(merged: Mapping[str, Mapping[str, Entry]], group: str, name: str) -> Entry:
    if name not in merged[group]:
        there = ", ".join(sorted(merged[group])) or "none"
        raise ValueError(f"there is no {name!r} among its {group}; there are {there}")
    return merged[group][name]


def _absolute(entry: Entry, fields: Iterable[str], folder: Path) -> Entry:
    found = dict(entry)
    for field in fields:
        if found.get(field):
            found[field] = str(folder / found[field])
    program = found.get("exec")
    if program and os.sep in str(program["command"]):  # else it is looked for in $PATH
        found["exec"] = {**program, "command": str(folder / program["command"])}
    return found


def _read(path: Path) -> dict[str, Any]:
    """The content of a file in YAML or JSON; raises OSError or ValueError."""
    text = path.read_text()
    if text.lstrip().startswith("{"):
        read: dict[str, Any] = json.loads(text)
        return read
    try:
        import yaml  # only here: programs in pods never need it
    except ImportError:
        raise ValueError("PyYAML is not installed; `pip install 'moiety[kube]'`") from None
    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"it is no YAML: {error}") from None
