"""Why too few cards can keep a share, and the nearest share that one could keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moiety.model.errors import ShareTaken
from moiety.model.format import format_bytes, format_fraction
from moiety.model.share import Share


@dataclass(frozen=True, slots=True)
class CardRefusal:
    """Why one card cannot keep a share, and the share that it could."""

    index: int
    text: str
    possible: Share


def taken(share: Share, count: int, fitting: int, refused: Sequence[CardRefusal]) -> ShareTaken:
    """The error for a share that `fitting` cards can keep, where `count` must."""
    nearest = max(refused, key=lambda each: (each.possible.gpu or 0, each.possible.memory_bytes))
    if len(refused) == 1 and count == 1:
        text = nearest.text
    else:
        those = f"{fitting} of {fitting + len(refused)} GPUs" if fitting else "no GPU"
        text = f"{those} can keep that, and {count} must; the nearest: {nearest.text}"
    possible, options = nearest.possible, []
    if share.gpu != possible.gpu and possible.gpu:
        options.append(f"--gpu {possible.gpu:g}")
    if share.memory_bytes != possible.memory_bytes and possible.memory_bytes:
        options.append(f"--memory {possible.memory_bytes >> 20}MiB")
    if not options:
        return ShareTaken(text, "no guarantee, or less for others (`moiety ps -o wide`)")
    had = []
    if possible.gpu:
        had.append(format_fraction(possible.gpu))
    if possible.memory_bytes and share.memory_bytes:
        had.append(format_bytes(possible.memory_bytes))
    fits = f"{' '.join(options)} fits on GPU {nearest.index}, which has {' and '.join(had)} left"
    return ShareTaken(text, f"{fits}; or less for others (`moiety ps -o wide`, `moiety set`)")
