"""Reads files of YAML for the pool's commands."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import msgspec

from moiety.model.errors import PoolFileInvalid, YamlMissing
from moiety.model.format import format_bytes
from moiety.pool.model.project_rows import Projects

FILE_MAX: Final = 1 << 20


def read_projects(file: str) -> Projects:
    """The projects of a pool.yaml; raises PoolFileInvalid or YamlMissing."""
    try:
        wanted = msgspec.convert(read_yaml(Path(file)), Projects)
    except msgspec.ValidationError as error:
        raise PoolFileInvalid(file, str(error)) from None
    for each in wanted.projects:  # JSON has no such numbers
        if not all(map(math.isfinite, (each.quota or 0, each.limit or 0, each.weight))):
            raise PoolFileInvalid(file, f"project {each.name}: a number is not finite")
    return wanted


def read_yaml(path: Path, *, as_typed: bool = False) -> Any:
    """The content of a file; raises PoolFileInvalid or YamlMissing.

    With `as_typed` each value is the text that stands there: YAML has numbers and truth values that
    look like words (`16:30` is 990, `yes` is true, `1.10` is 1.1).
    """
    try:
        import yaml
    except ImportError:
        raise YamlMissing from None
    try:
        with path.open("rb") as file:
            content = file.read(FILE_MAX + 1)
        if len(content) > FILE_MAX:
            raise PoolFileInvalid(str(path), f"it has more than {format_bytes(FILE_MAX)}")
        return yaml.load(content.decode(), yaml.BaseLoader if as_typed else yaml.SafeLoader)
    except OSError as error:
        raise PoolFileInvalid(str(path), f"it cannot be read: {error.strerror}") from None
    except ValueError as error:  # a path may have a NUL character
        raise PoolFileInvalid(str(path), f"it cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise PoolFileInvalid(str(path), f"it is no YAML: {error}") from None
