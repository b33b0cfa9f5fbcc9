"""Reads words as getopt_long does: prefixes, glued values, `--name value`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moiety.slurm.errors import OptionRefused
from moiety.slurm.options import VARIABLES, Argument, Effect, Option, options_of

Found = list[tuple[Option, str]]
"""Options with their values, in order; the last of a name counts."""
FALSE: Final = ("", "0", "no")


class Reader:
    """The options of one program."""

    def __init__(self, program: str) -> None:
        self.program = program
        options = options_of(program)
        self._by_name = {option.name: option for option in options}
        self._by_short = {option.short: option for option in options if option.short}

    def read(self, words: Sequence[str]) -> tuple[Found, list[str]]:
        """The options of a command line, and the words from the first that is none."""
        found: Found = []
        left = list(words)
        while left:
            word = left[0]
            if word == "--":
                return found, left[1:]
            if not word.startswith("-") or word == "-":
                break
            left.pop(0)
            if word.startswith("--"):
                found.append(self._long(word, left))
            else:
                found += self._letters(word, left)
        return found, left

    def of_environment(self, environment: Mapping[str, str]) -> Found:
        """The options that variables give."""
        found: Found = []
        for variable, name in VARIABLES[self.program].items():
            text = environment.get(variable)
            option = self._by_name[name]
            if text is None or (option.argument is Argument.NONE and text.lower() in FALSE):
                continue
            value = "" if option.argument is Argument.NONE else text
            found.append((self._allowed(option), value))
        return found

    def _long(self, word: str, left: list[str]) -> tuple[Option, str]:
        name, equals, value = word[2:].partition("=")
        option = self._named(name, word)
        if option.argument is Argument.NONE:
            if equals:
                raise OptionRefused(f"option '--{option.name}' doesn't allow an argument")
        elif option.argument is Argument.REQUIRED and not equals:
            if not left:
                raise OptionRefused(f"option '--{name}' requires an argument")
            value = left.pop(0)
        return self._allowed(option), value

    def _letters(self, word: str, left: list[str]) -> Found:
        found: Found = []
        rest = word[1:]
        while rest:
            letter, rest = rest[0], rest[1:]
            option = self._by_short.get(letter)
            if option is None:
                raise OptionRefused(f"invalid option -- '{letter}'", f"{self.program} --help")
            value = ""
            if option.argument is Argument.REQUIRED and not rest:
                if not left:
                    raise OptionRefused(f"option requires an argument -- '{letter}'")
                value = left.pop(0)
            elif option.argument is not Argument.NONE:
                value, rest = rest, ""
            found.append((self._allowed(option), value))
        return found

    def _named(self, name: str, word: str) -> Option:
        option = self._by_name.get(name)
        if option is None:
            near = [each for each in self._by_name.values() if each.name.startswith(name)]
            if not near:
                raise OptionRefused(f"unrecognized option '{word[:80]}'", f"{self.program} --help")
            if len({each.alias_of or each.name for each in near}) > 1:
                known = " ".join(f"'--{each.name}'" for each in near)
                raise OptionRefused(f"option '{word[:80]}' is ambiguous; possibilities: {known}")
            option = near[0]
        return self._by_name[option.alias_of] if option.alias_of else option

    def _allowed(self, option: Option) -> Option:
        if option.effect is Effect.REFUSED:
            raise OptionRefused(f"--{option.name} cannot be used here: {option.words}")
        return option
