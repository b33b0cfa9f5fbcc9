"""What users and groups are guaranteed of each GPU's time: not more than there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from moiety.config.load import Config, Value
from moiety.model.errors import BadSetting
from moiety.model.format import format_fraction

FIELD: Final = "guaranteed"
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class GuaranteeRules:
    """The guaranteed parts of one system, from 0 to 1, by name; all together are 1 at most."""

    users: dict[str, float] = field(default_factory=dict)
    groups: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Config) -> GuaranteeRules:
        """The rules in these files; raises BadSetting if they cannot all be kept."""
        for problem in problems(config):
            raise problem
        users, groups = (
            {name: value.value for name, value in _values(config, section)}
            for section in ("users", "groups")
        )
        return cls(users, groups)


def problems(config: Config) -> Iterator[BadSetting]:
    """Why the guarantees in these files cannot be kept, each with what to change."""
    known = [*_values(config, "users"), *_values(config, "groups")]
    whole = sum(value.value for _, value in known)
    if whole > 1 + _ROUNDING:
        last = known[-1][1]
        parts = ", ".join(f"{value.name} = {format_fraction(value.value)}" for _, value in known)
        yield BadSetting(
            last.where,
            last.name,
            f"users and groups are guaranteed {format_fraction(whole)} of each GPU together, which "
            "is more than there is",
            f"100 % at most in all; now {parts}",
        )
    for name, values in config.named("users").items():
        part, most = values.get(FIELD), values.get("gpu")
        if part and most and part.value > most.value:
            yield BadSetting(
                part.where,
                part.name,
                f"{name} may have {format_fraction(most.value)} of a GPU at most, so "
                f"{format_fraction(part.value)} cannot be guaranteed",
                f"guaranteed = {most.text} or less, or a larger gpu",
            )


def _values(config: Config, section: str) -> list[tuple[str, Value]]:
    return [
        (name, values[FIELD]) for name, values in config.named(section).items() if FIELD in values
    ]
