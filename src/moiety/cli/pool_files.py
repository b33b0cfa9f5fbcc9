"""Reads files of YAML for the pool's commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moiety.model.errors import PoolFileInvalid, YamlMissing


def read_yaml(path: Path) -> Any:
    """The content of a file; raises PoolFileInvalid or YamlMissing."""
    try:
        import yaml
    except ImportError:
        raise YamlMissing from None
    try:
        return yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise PoolFileInvalid(str(path), f"it cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise PoolFileInvalid(str(path), f"it is no YAML: {error}") from None
