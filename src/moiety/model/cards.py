"""Which GPUs of a machine a workload asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moiety.model.errors import BadArgument

COUNT_MAX: Final = 64
"""The most GPUs of one workload."""
NAMES_MAX: Final = 64
"""The most GPUs that one request names."""
TEXT_MAX: Final = 64
"""The longest name of a GPU or a model, in characters."""
MIG: Final = "MIG-"
"""How the UUID of a part of a GPU begins (NVIDIA's Multi-Instance GPU)."""
_NAME: Final = r"\d{1,3}|GPU-[0-9a-fA-F-]{1,36}"


@dataclass(frozen=True, slots=True)
class CardRequest:
    """The GPUs that a workload asks for. Raises BadArgument for values that make no sense."""

    count: int = 0
    """How many; 0: all that are named, or one."""
    named: tuple[str, ...] = ()
    """Indices, or beginnings of UUIDs (`GPU-2eb5`), of the only ones that will do; empty: any."""
    model: str = ""
    """A part of the name of the model, such as A100; empty: any."""
    exclusive: bool = False
    """Whether no other workload may be on them, and all of them is guaranteed."""

    def __post_init__(self) -> None:
        if not 0 <= self.count <= COUNT_MAX:
            raise BadArgument(f"{self.count} is no number of GPUs", "--gpus 2, say")
        if len(self.named) > NAMES_MAX or len(self.model) > TEXT_MAX:
            raise BadArgument("the GPUs are named by too long a text", "`moiety gpu ls`")
        for name in self.named:
            if name.startswith(MIG):
                raise BadArgument(
                    f"{name[:TEXT_MAX]} is a part of a GPU (MIG), and whole GPUs are chosen",
                    f"CUDA_VISIBLE_DEVICES={name[:TEXT_MAX]} without options that choose GPUs",
                )
            if not re.fullmatch(_NAME, name):
                raise BadArgument(
                    f"{name[:TEXT_MAX]!r} names no GPU",
                    "an index, or the beginning of a UUID such as GPU-2eb5: `nvidia-smi -L`",
                )
        if self.named and self.count > len(self.named):
            raise BadArgument(
                f"{self.count} GPUs are asked for, and {len(self.named)} are named",
                f"--gpus {len(self.named)} or less",
            )

    @property
    def number(self) -> int:
        """How many GPUs it asks for."""
        return self.count or len(self.named) or 1

    def find(self, uuids: Mapping[int, str]) -> list[int]:
        """The indices of the GPUs that it names, in its order; `uuids` has all GPUs by index.

        Raises BadArgument for a name that means none of them, or several.
        """
        found: list[int] = []
        for name in self.named:
            if name.isdecimal():
                meant = [index for index in uuids if index == int(name)]
            else:
                meant = [i for i, uuid in uuids.items() if uuid.lower().startswith(name.lower())]
            if len(meant) != 1:
                many = "means several GPUs" if meant else "is no GPU of this agent"
                raise BadArgument(f"{name} {many}", "an index that `moiety gpu ls` shows")
            found += [index for index in meant if index not in found]
        return found


def split(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The names in options that may be repeated and may hold lists: `("0,1", "3")`."""
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


def of_environment(text: str | None) -> tuple[str, ...]:
    """The GPUs that `CUDA_VISIBLE_DEVICES` names, as CUDA reads it; empty: all, or none.

    CUDA stops at the first entry that it does not understand.
    """
    found: list[str] = []
    for name in (text or "").split(","):
        if not re.fullmatch(_NAME, name.strip()):
            break
        found.append(name.strip())
    return tuple(found[:NAMES_MAX])
