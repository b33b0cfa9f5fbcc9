"""Changing a share while its pod runs: an annotation on the pod says what it is to be. Pure.

    moiety.dev/resize: gpu=0.6 memory=10Gi

Words as in `moiety.dev/gpu` and the like, without the prefix; what is not named stays. A word for
one container of several is `train:gpu=0.6`. The annotation is wished for, not spent: whoever reads
it again finds the share as it is, and does nothing.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, Final

from moiety.kube.model import names
from moiety.kube.model.share_config import InvalidShareConfig, parse_memory, parse_part
from moiety.model.errors import InvalidValue, MoietyError
from moiety.model.share import Share, parse_priority

WORDS: Final = ("gpu", "gpu-limit", "memory", "memory-limit", "priority", "latency")
NONE: Final = "none"
"""takes a request or a limit away"""
_TRUTH: Final = {"true": True, "false": False}


class InvalidResize(InvalidValue):
    """An annotation that says no share, in one sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{names.RESIZE}: {problem}", f"kubectl moiety resize POD --gpu 0.6; {', '.join(WORDS)}"
        )


def wanted(annotations: Mapping[str, str], container: str, now: Share) -> Share:
    """What a container's share is to be, of the pod's annotations and what it is.

    Without the annotation, or where it names other containers only, that is `now`. Raises
    InvalidResize.
    """
    text = annotations.get(names.RESIZE)
    return now if text is None else changed(now, parse(text), container)


def parse(text: str) -> list[tuple[str, str, str]]:
    """Each (container, word, value); the container is empty where all are meant.

    Raises InvalidResize: a word that there is not, or twice, or a value that is none of its kind.
    """
    found: list[tuple[str, str, str]] = []
    for part in text.split():
        left, equals, value = part.partition("=")
        container, _, word = left.rpartition(":")
        if not equals or not value:
            raise InvalidResize(f"{part!r} is no WORD=VALUE")
        if word not in WORDS:
            near = difflib.get_close_matches(word, WORDS, n=1)
            raise InvalidResize(f"there is no {word!r}{f'; did you mean {near[0]}?' * bool(near)}")
        if any((container, word) == each[:2] for each in found):
            raise InvalidResize(f"{left} stands twice")
        _value(word, value)
        found.append((container, word, value))
    if not found:
        raise InvalidResize("it says nothing")
    return found


def changed(now: Share, parts: list[tuple[str, str, str]], container: str) -> Share:
    """A share with what these say of a container; raises InvalidResize if it makes no sense."""
    changes: dict[str, Any] = {}
    for named in ("", container):  # what names it counts for more
        for who, word, value in parts:
            if who == named:
                field, number = _value(word, value)
                changes[field] = number
    try:
        return dataclasses.replace(now, **changes)
    except MoietyError as error:
        raise InvalidResize(error.what) from None


def written(values: Mapping[str, str], container: str = "") -> str:
    """The annotation that says these words; raises InvalidResize."""
    text = " ".join(
        f"{container}:{word}={value}" if container else f"{word}={value}"
        for word, value in values.items()
    )
    parse(text)
    return text


def _value(word: str, text: str) -> tuple[str, Any]:
    try:
        if word == "gpu":
            return "gpu", None if text == NONE else parse_part(text, word)
        if word == "gpu-limit":
            return "gpu_limit", 1.0 if text == NONE else parse_part(text, word)
        if word == "memory":
            return "memory_bytes", 0 if text == NONE else parse_memory(text, word)
        if word == "memory-limit":
            return "memory_limit_bytes", None if text == NONE else parse_memory(text, word)
        if word == "priority":
            return "priority", parse_priority(text)
    except InvalidShareConfig as error:
        raise InvalidResize(error.what) from None
    except InvalidValue as error:
        raise InvalidResize(f"{word}: {error.what}; {error.hint}") from None
    if text not in _TRUTH:
        raise InvalidResize(f"latency: {text!r} is neither true nor false")
    return "latency", _TRUTH[text]
