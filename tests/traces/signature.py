"""The parameters of the driver's functions, as native/cuda/cuda_calls.def declares them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "native" / "cuda" / "cuda_calls.def"
CALL = re.compile(
    r"^CUDA_CALL(_DS|_SZ)?\((\w+),\s*\((.*?)\),\s*\((.*?)\)\)", re.MULTILINE | re.DOTALL
)
FLAVOURS = {"_DS": "_ptds", "_SZ": "_ptsz"}


@dataclass(frozen=True)
class Parameter:
    """One parameter: `CUstream`, `stream`."""

    type: str
    name: str

    @property
    def pointer(self) -> bool:
        """Whether it is an address."""
        return self.type.endswith("*")


@cache
def signatures() -> dict[str, tuple[Parameter, ...]]:
    """By exported name, stream flavours included."""
    text = re.sub(r"/\*.*?\*/", "", TABLE.read_text(), flags=re.DOTALL)
    found = {}
    for flavour, name, declared, _ in CALL.findall(text):
        own = tuple(parameter(part) for part in declared.split(",") if part.strip() != "void")
        found[name] = own
        if flavour:
            found[name + FLAVOURS[flavour]] = own
    return found


def parameter(text: str) -> Parameter:
    """`const char *name` and the like."""
    kind, name = re.fullmatch(r"(.*?)(\w+)", " ".join(text.split())).groups()  # type: ignore[union-attr]
    return Parameter(kind.strip(), name)


def plain(name: str) -> str:
    """A function's name without its stream flavour."""
    return name.removesuffix("_ptsz").removesuffix("_ptds")
