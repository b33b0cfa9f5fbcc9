"""What other front ends keep with a workload, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moiety.model.errors import BadArgument

LABELS_MAX: Final = 1 << 16
"""Letters of all labels of a workload together: they are in each list that shows it."""


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise BadArgument for more than a row can have."""
    if sum(len(name) + len(value) for name, value in labels.items()) > LABELS_MAX:
        raise BadArgument(f"the labels have more than {LABELS_MAX >> 10} Ki letters", "fewer")
