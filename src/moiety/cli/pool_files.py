"""Reads files of YAML for the pool's commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from moiety.model.errors import PoolFileInvalid, YamlMissing
from moiety.model.format import format_bytes

FILE_MAX: Final = 1 << 20


def read_yaml(path: Path) -> Any:
    """The content of a file; raises PoolFileInvalid or YamlMissing."""
    try:
        import yaml
    except ImportError:
        raise YamlMissing from None
    try:
        with path.open("rb") as file:
            content = file.read(FILE_MAX + 1)
        if len(content) > FILE_MAX:
            raise PoolFileInvalid(str(path), f"it has more than {format_bytes(FILE_MAX)}")
        return yaml.safe_load(content.decode())
    except (OSError, ValueError) as error:  # a path may have a NUL character
        raise PoolFileInvalid(str(path), f"it cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise PoolFileInvalid(str(path), f"it is no YAML: {error}") from None
