"""Changes a share while its pod runs, by an annotation on the pod. Pure.

    moiety.dev/resize: gpu=0.6 memory=10Gi

The words are those of `moiety.dev/gpu` and the like, without the prefix; values that are not named
stay. A word for one container of several is `train:gpu=0.6`. The annotation is a desired state, not
a command: a process that reads it again finds the share as desired, and does nothing.
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
"""Takes a request or a limit away."""
_TRUTH: Final = {"true": True, "false": False}


class InvalidResize(InvalidValue):
    """An annotation that describes no share, in one sentence."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{names.RESIZE}: {problem}", f"kubectl moiety resize POD --gpu 0.6; {', '.join(WORDS)}"
        )


def wanted(annotations: Mapping[str, str], container: str, now: Share) -> Share:
    """The desired share of a container, from the pod's annotations and its present share.

    Without the annotation, or if it names other containers only, that is `now`. Raises
    InvalidResize.
    """
    text = annotations.get(names.RESIZE)
    return now if text is None else changed(now, parse(text), container)


def parse(text: str) -> list[tuple[str, str, str]]:
    """Each (container, word, value); the container is empty for all containers.

    Raises InvalidResize for an unknown or repeated word, or a value of the wrong kind.
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
    """A share with these changes of a container; raises InvalidResize if it makes no sense."""
    changes: dict[str, Any] = {}
    for named in ("", container):  # a word that names the container wins
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
