"""Lines of `WORD: VALUE`, as keys of moiety's ConfigMaps have them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from moiety.model.errors import InvalidValue


def key_values(text: str) -> Iterator[tuple[str, str]]:
    """The words and values of the lines, in their order; a word may come more than once.

    Empty lines and those that begin with # are left out, as are quotes around a value. Raises
    InvalidValue for a line of another form.
    """
    for line in text.splitlines():
        said = line.strip()
        if not said or said.startswith("#"):
            continue
        word, colon, value = said.partition(":")
        word, value = word.strip(), value.strip().strip("\"'")
        if not colon or not value:
            raise InvalidValue(f"{said!r} is no WORD: VALUE", "gpu: 4")
        yield word, value
