"""What the pods of a namespace may have, as an administrator says it in a ConfigMap. Pure.

`moiety-namespaces` has a key for each namespace, with lines of `WORD: VALUE`. The key `_defaults`,
which can be no namespace, is for what a namespace's own key leaves out:

    _defaults: |
      priority: normal
    team: |
      gpu: 4
      memory: 160Gi
      latency: true
      resize: true
      guaranteed: 30%

Without any of it a namespace has neither the latency class, nor priority high, nor resizes. A key
that makes no sense forbids every share in its namespace: an error must not allow more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moiety.arbiter.admission.user_limits import Entitlement, Rule, entitle, refuse
from moiety.kube.model import names, quantity
from moiety.kube.model.key_values import key_values
from moiety.model.errors import InvalidValue, MoietyError
from moiety.model.format import format_fraction
from moiety.model.share import Priority, Share, parse_priority
from moiety.model.units import AllocationLimit, parse_fraction

DEFAULTS: Final = "_defaults"
USUAL: Final = f"the default; ConfigMap {names.NAMESPACES} can allow it"
GUARANTEED: Final = "guaranteed"
_ROUNDING: Final = 1e-9
_TRUTH: Final = {"true": True, "false": False}


class LimitRefusal(MoietyError):
    """What the administrator does not allow a namespace, with the place of the rule."""

    def __init__(self, what: str) -> None:
        super().__init__(what, f"an administrator, who can change ConfigMap {names.NAMESPACES}")


@dataclass(frozen=True, slots=True)
class NamespaceRules:
    """The rules for one namespace."""

    may: Entitlement
    resize: Rule[bool]
    """Whether its pods may change their shares while they run."""
    problem: str = ""
    """Why the rules cannot be read; then no share is allowed."""

    @property
    def has_sums(self) -> bool:
        """Whether the shares of the namespace are added up."""
        return self.may.gpu is not None or self.may.memory is not None

    def check(self, wanted: Sequence[Share], others: Sequence[Share] = ()) -> None:
        """Raise LimitRefusal if the namespace may not have these shares beside `others`.

        Each is a share of one GPU; a share of two GPUs stands twice.
        """
        if self.problem and wanted:
            raise LimitRefusal(self.problem)
        beside = list(others)
        for share in wanted:
            # The limit of memory is that of a program on its GPU, not a part of the sum.
            promised = dataclasses.replace(share, memory_limit_bytes=None)
            if no := refuse(self.may, promised, beside):
                raise LimitRefusal(f"{no[0]} ({no[1]})")
            beside.append(promised)

    def check_class(self, share: Share) -> None:
        """Raise LimitRefusal if the namespace may not have the class or priority of a share."""
        self.check([Share(priority=share.priority, latency=share.latency)])

    def check_resize(self) -> None:
        """Raise LimitRefusal if pods of the namespace may not change their shares."""
        if self.problem:
            raise LimitRefusal(self.problem)
        if not self.resize.value:
            raise LimitRefusal(
                f"{self.may.user} may not change shares of running pods ({self.resize.where})"
            )


class NamespaceLimits:
    """The rules for all namespaces."""

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        """`texts` is the data of the ConfigMap; None: there is no ConfigMap."""
        self._rules: dict[str, Mapping[str, Rule[Any]]] = {}
        self._broken: dict[str, str] = {}
        for key, text in (texts or {}).items():
            where = f"ConfigMap {names.NAMESPACES}, {key}"
            try:
                self._rules[key] = _rules(text, where, is_default=key == DEFAULTS)
            except InvalidValue as error:
                self._broken[key] = f"{where}: {error.what}"

    @property
    def problems(self) -> tuple[str, ...]:
        """What makes no sense, each in a sentence."""
        return tuple(self._broken.values())

    def guaranteed(self) -> dict[str, float]:
        """The part of each GPU's time that each namespace is guaranteed, from 0 to 1.

        Raises LimitRefusal if all together are more than there is: then none can be kept.
        """
        found = {
            key: float(rules[GUARANTEED].value)
            for key, rules in self._rules.items()
            if GUARANTEED in rules
        }
        if (whole := sum(found.values())) > 1 + _ROUNDING:
            parts = ", ".join(f"{key} {format_fraction(part)}" for key, part in found.items())
            raise LimitRefusal(
                f"namespaces are guaranteed {format_fraction(whole)} of each GPU together, which "
                f"is more than there is: {parts}"
            )
        return found

    def of(self, namespace: str) -> NamespaceRules:
        """The rules for one namespace."""
        usual: dict[str, Rule[Any]] = {
            "priority": Rule(Priority.NORMAL, USUAL),
            "latency": Rule(False, USUAL),
            "resize": Rule(False, USUAL),
        }
        defaults = usual | dict(self._rules.get(DEFAULTS, {}))
        own = self._rules.get(namespace, {})
        problem = self._broken.get(namespace) or self._broken.get(DEFAULTS, "")
        resize = own.get("resize", defaults["resize"])
        return NamespaceRules(entitle(f"namespace {namespace}", own, (), defaults), resize, problem)


def _rules(text: str, where: str, *, is_default: bool) -> dict[str, Rule[Any]]:
    """The rules of one key; raises InvalidValue."""
    found: dict[str, Rule[Any]] = {}
    for word, value in key_values(text):
        if word not in WORDS:
            raise InvalidValue(f"there is no {word!r}; there are {', '.join(WORDS)}", "gpu: 4")
        field, parse = WORDS[word]
        if field == GUARANTEED and is_default:
            raise InvalidValue(f"{word} is for one namespace", "it in the namespace's own key")
        if field in found:
            raise InvalidValue(f"{word} stands twice", "one of them")
        try:
            found[field] = Rule(parse(value), where)
        except InvalidValue as error:
            raise InvalidValue(f"{word}: {error.what}", error.hint) from None
    return found


def _gpus(text: str) -> float:
    value = quantity.parse(text)
    if value < 0:
        raise quantity.InvalidQuantity(text, "is negative", "a number of GPUs: 4, 0.5")
    return float(value)


def _memory(text: str) -> AllocationLimit:
    """All memory that shares keep in the cluster together: no part of one GPU says that."""
    if text.endswith("%"):
        raise quantity.InvalidQuantity(
            text,
            "is a part, and GPUs of a cluster differ: all shares of the namespace count together",
            "an amount of memory: 160Gi",
        )
    return AllocationLimit(quantity.parse_bytes(text), None)


def _truth(text: str) -> bool:
    if text not in _TRUTH:
        raise InvalidValue(f"{text!r} is neither true nor false", "true, false")
    return _TRUTH[text]


WORDS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "gpu": ("gpu", _gpus),
    "memory": ("memory", _memory),
    "priority": ("priority", parse_priority),
    "latency": ("latency", _truth),
    "resize": ("resize", _truth),
    "guaranteed": (GUARANTEED, parse_fraction),
}
"""The words of a key: the field of the rule, and how its value is read."""
