"""What a setting is, and a section of settings: a class whose fields say how each is read.

The classes have no methods of their own, because every command waits until Python has made them.
"""

import inspect
from collections.abc import Callable
from typing import Any, dataclass_transform

import msgspec

from moiety.config.values import parse_switch


class Setting(msgspec.Struct, frozen=True):
    """One setting; `field` is what the code calls it."""

    section: str
    """The section of a file; empty if it stands in the environment only."""
    key: str
    field: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    default: str | None = None
    """The default as one types it; None: `unset` says what happens then."""
    unset: str = ""
    flag: str | None = None
    variable: str | None = None
    of_arbiter: bool = False
    """True for a field of the arbiter's Settings."""
    words: tuple[str, ...] = ()
    """All values that it can have, if they are a few words."""

    @property
    def name(self) -> str:
        """As people write it: agent.turn-min, MOIETY_DIR."""
        return f"{self.section}.{self.key}" if self.section else self.key

    @property
    def is_switch(self) -> bool:
        """Whether its flag takes no value."""
        return self.parse is parse_switch


def setting(text: str, default: str | None = None, **more: Any) -> Any:
    """A field of a section: what it means, its default as typed, and what does not follow.

    `unset` says what happens without a default; `key`, `flag`, `variable` and `metavar` stand here
    where they differ from what the name and the type of the field give.
    """
    return _Field({"help": text, "default": default, **more})


class _Field(msgspec.Struct, frozen=True):
    """What `setting` was told; it stands in the class until an object has the value."""

    told: dict[str, Any]


@dataclass_transform(kw_only_default=True, field_specifiers=(setting,))
class Values:
    """The settings of a section, by field. `dataclass` would compile code for each class."""

    def __init__(self, **values: Any) -> None:
        """Raises TypeError unless every field has its value, and nothing else."""
        if values.keys() != {name for name, _, _ in fields_of(type(self))}:
            raise TypeError(f"{type(self).__name__} has other fields than {', '.join(values)}")
        vars(self).update(values)


def fields_of(section: type) -> list[tuple[str, Any, dict[str, Any]]]:
    """The name, annotation and description of each field, those of base classes first."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    for each in reversed(section.__mro__):
        for name, hint in inspect.get_annotations(each).items():
            if isinstance(field := vars(each).get(name), _Field):
                found[name] = hint, field.told
    return [(name, hint, told) for name, (hint, told) in found.items()]
