"""The whole state of an arbiter as plain values, and an arbiter made from them.

A checkpoint is a tree of numbers, texts and lists, so that any format can hold it. It names classes
and fields, so it fits the version of moiety that took it, and no code in it is run: only classes of
the arbiter are made from it. Every object and every mutable container is numbered in the order in
which it is met, so that what two others share is shared again.

    [kind, ...]      object: "o", class, values | "l"ist, "s"et, "f"rozenset, "t"uple: items
                     "q" (deque): its bound, items | "d"ictionary: key, value, key, value ...
                     "e"num: class, value | "r"eference: number | "c"allable
                     "n": a float that is not finite | "i": an int beyond 64 bits
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, Final

from moiety.arbiter.machine import Arbiter
from moiety.arbiter.recordable import Recordable
from moiety.arbiter.settings import Settings

Tree = Any
"""A number, a text, True, False, None, or a list that begins with its kind."""

_LEAVES: Final = frozenset({int, float, str, bool, type(None)})
_HOMES: Final = ("moiety.arbiter.", "moiety.model.share")
_AS_THEY_ARE: Final = frozenset("ercni")
"""Kinds in which no other tree stands."""
_PLAIN: Final[dict[str, Callable[[Iterable[Any]], Any]]] = {"t": tuple, "f": frozenset}
_INT_MAX: Final = 1 << 63


class BadCheckpoint(ValueError):
    """It is damaged, or of a moiety whose arbiter has other fields."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of an arbiter between two events."""

    classes: list[tuple[str, list[str]]]
    """The classes that `tree` counts through, with their fields."""
    tree: Tree


def take(arbiter: Arbiter) -> Checkpoint:
    """The state of an arbiter; raises TypeError for a value that no checkpoint can hold."""
    taker = _Taker()
    tree = taker.take(arbiter)
    return Checkpoint(taker.classes, tree)


def restore(
    checkpoint: Checkpoint, calls: Mapping[str, Callable[..., object]] | None = None
) -> Arbiter:
    """An arbiter in that state; raises BadCheckpoint.

    A field that held a function gets the one of its name in `calls`, or one that does nothing.
    """
    try:
        made = _Maker(checkpoint.classes, calls or {}).make(checkpoint.tree)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise BadCheckpoint(f"its checkpoint makes no sense: {error}") from None
    if type(made) is not Arbiter:
        raise BadCheckpoint("its checkpoint is not one of an arbiter")
    return made


def portable(tree: Tree) -> Tree:
    """The same tree without numbers that JSON or 64 bits cannot hold."""

    def leaf(value: Any) -> Tree:
        if type(value) is float and not math.isfinite(value):
            return ["n", repr(value)]
        if type(value) is int and not -_INT_MAX <= value < _INT_MAX:
            return ["i", str(value)]
        return value

    return _mapped(tree, leaf)


def with_texts(tree: Tree, changed: Callable[[str], str]) -> Tree:
    """The same tree with every text in it changed."""
    return _mapped(tree, lambda value: changed(value) if type(value) is str else value)


def names(checkpoint: Checkpoint, field: str = "name") -> list[tuple[str, str]]:
    """Class and text of every object with a field of this name."""
    places = {
        number: (path.rpartition(".")[2], 2 + fields.index(field))
        for number, (path, fields) in enumerate(checkpoint.classes)
        if field in fields
    }
    found: list[tuple[str, str]] = []

    def look(tree: Tree) -> None:
        if type(tree) is list and tree and tree[0] not in _AS_THEY_ARE:
            if tree[0] == "o" and tree[1] in places:
                kind, at = places[tree[1]]
                found.append((kind, str(tree[at])))
            for each in tree[1:]:
                look(each)

    look(checkpoint.tree)
    return found


def _mapped(tree: Tree, leaf: Callable[[Any], Tree]) -> Tree:
    if type(tree) is not list:
        return leaf(tree)
    if not tree or tree[0] in _AS_THEY_ARE:
        return tree
    head = 2 if tree[0] in "oq" else 1
    return [*tree[:head], *(_mapped(each, leaf) for each in tree[head:])]


class _Taker:
    """Turns objects into a tree."""

    def __init__(self) -> None:
        self.classes: list[tuple[str, list[str]]] = []
        self._known: dict[type | tuple[str, ...], tuple[int, Callable[[Any], Any]]] = {}
        """By class, or by class and fields where objects of it may have different ones."""
        self._numbers: dict[int, int] = {}

    def take(self, value: Any) -> Tree:
        """One value."""
        kind = type(value)
        if kind in _LEAVES:
            return value
        if kind is tuple:
            return ["t", *self._all(value)]
        if kind is frozenset:
            return ["f", *self._all(value)]
        if isinstance(value, Enum):
            return ["e", _path(kind), value.value]
        known = self._numbers.get(id(value))
        if known is not None:
            return ["r", known]
        self._numbers[id(value)] = len(self._numbers)
        if kind is list:
            return ["l", *self._all(value)]
        if kind is dict:
            return ["d", *self._all(part for pair in value.items() for part in pair)]
        if kind is set:
            return ["s", *self._all(value)]
        if kind is deque:
            return ["q", value.maxlen, *self._all(value)]
        if kind.__module__.startswith(_HOMES):
            number, values_of = self._class(value, kind)
            return ["o", number, *self._all(values_of(value))]
        if callable(value):
            del self._numbers[id(value)]  # a bound method is another object each time
            return ["c"]
        raise TypeError(f"no checkpoint can hold {kind.__qualname__}")

    def _all(self, values: Iterable[Any]) -> list[Tree]:
        take = self.take
        return [each if type(each) in _LEAVES else take(each) for each in values]

    def _class(self, value: Any, kind: type) -> tuple[int, Callable[[Any], Any]]:
        known = self._known.get(kind)
        if known is not None:
            return known
        fields = _fields(kind)
        key = kind if fields else (_path(kind), *vars(value))
        known = self._known.get(key)
        if known is None:
            fields = fields or tuple(vars(value))
            self.classes.append((_path(kind), list(fields)))
            get = attrgetter(*fields)
            values_of = get if len(fields) > 1 else lambda each: (get(each),)
            known = self._known[key] = len(self.classes) - 1, values_of
        return known


class _Maker:
    """Turns a tree into objects."""

    def __init__(
        self, classes: list[tuple[str, list[str]]], calls: Mapping[str, Callable[..., object]]
    ) -> None:
        expected = dict(take(Arbiter([], Settings(arena_bytes=0))).classes)
        self._classes: list[tuple[type, list[str]]] = []
        for path, fields in classes:
            kind = _found(path)
            known = _fields(kind) or expected.get(path, fields)
            if set(fields) != set(known) or len(fields) != len(known):
                other = sorted(set(fields) ^ set(known))
                raise ValueError(f"{path} has other fields here: {', '.join(other)}")
            self._classes.append((kind, fields))
        self._calls = calls
        self._made: list[Any] = []

    def make(self, tree: Tree) -> Any:
        """One value."""
        if type(tree) is not list:
            return tree
        kind, *rest = tree
        match kind:
            case "o":
                return self._object(*self._classes[rest[0]], rest[1:])
            case "r":
                return self._made[rest[0]]
            case "e":
                cls = _found(rest[0])
                if not issubclass(cls, Enum):
                    raise ValueError(f"{rest[0]} is no enumeration")
                return cls(rest[1])
            case "n":
                return float(rest[0])
            case "i":
                return int(rest[0])
            case "c":
                return _does_nothing
            case "t" | "f":
                return _PLAIN[kind](self.make(each) for each in rest)
        return self._container(kind, rest)

    def _container(self, kind: str, rest: list[Tree]) -> Any:
        found: Any
        match kind:
            case "l":
                self._made.append(found := [])
                found.extend(self.make(each) for each in rest)
            case "s":
                self._made.append(found := set())
                for each in rest:
                    found.add(self.make(each))
            case "q":
                self._made.append(found := deque(maxlen=rest[0]))
                found.extend(self.make(each) for each in rest[1:])
            case "d":
                self._made.append(found := {})
                for key, value in zip(rest[::2], rest[1::2], strict=True):
                    found[self.make(key)] = self.make(value)
            case _:
                raise ValueError(f"there is no kind {kind!r}")
        return found

    def _object(self, cls: type, fields: list[str], values: list[Tree]) -> Any:
        if issubclass(cls, Recordable):  # its fields are set once, when it is made
            number = len(self._made)
            self._made.append(None)
            given = {field: self.make(value) for field, value in zip(fields, values, strict=True)}
            self._made[number] = cls(**given)
            return self._made[number]
        made: Any = object.__new__(cls)
        self._made.append(made)
        for field, value in zip(fields, values, strict=True):
            is_call = type(value) is list and value[0] == "c"
            found = self._calls.get(field, _does_nothing) if is_call else self.make(value)
            object.__setattr__(made, field, found)
        return made


def _does_nothing(*_: object) -> None:
    """Stand where a function of the agent stood."""


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _found(path: str) -> type:
    """The class of that name, which must be the arbiter's own."""
    module, _, name = path.rpartition(".")
    if f"{module}.".startswith(_HOMES):
        cls = getattr(sys.modules.get(module), name, None)
        if isinstance(cls, type) and _path(cls) == path:
            return cls
    raise ValueError(f"there is no class {path}")


def _fields(cls: type) -> tuple[str, ...]:
    """The slots of a class, those of the classes above it first; empty if it has none."""
    found: list[str] = []
    for each in reversed(cls.__mro__):
        slots = each.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else slots
    return tuple(name for name in found if name not in ("__dict__", "__weakref__"))
