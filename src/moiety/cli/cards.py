"""The GPUs of `moiety run`: its options and CUDA_VISIBLE_DEVICES, and what the program sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

from moiety.agent.control.rows import CardName
from moiety.model.cards import MIG, CardRequest, of_environment, split
from moiety.model.errors import BadArgument

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
OPTIONS: Final = (
    click.option("--gpus", "gpu_count", type=int, help="How many GPUs it gets (1)."),
    click.option(
        "--gpu-index", multiple=True, metavar="LIST", help="The only GPUs that will do: 0,3."
    ),
    click.option("--gpu-model", metavar="TEXT", help="A part of the model's name, such as A100."),
)


def card_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options by which a command asks for GPUs."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def requested(
    count: int | None,
    indices: tuple[str, ...],
    model: str | None,
    *,
    exclusive: bool,
    environment: Mapping[str, str],
) -> CardRequest | None:
    """What the agent is to choose; None: nothing, since the environment hides all GPUs.

    `--gpu-index` counts for more than CUDA_VISIBLE_DEVICES. A part of a GPU that the variable names
    by its UUID (MIG) is left to the driver, which gives a program one. Raises BadArgument.
    """
    if count is not None and count < 1:
        raise BadArgument(f"{count} is no number of GPUs", "--gpus 2, say")
    named = split(indices)
    if indices and not named:
        raise BadArgument("--gpu-index names no GPU", "--gpu-index 0,3, say")
    if not named and VISIBLE in environment:
        named = of_environment(environment[VISIBLE])
        part = mig_part(environment)
        if not named and part and (count is not None or model or exclusive):
            named = (part,)  # which says what to type instead
        if not named:
            return None
    return CardRequest(count or 0, named, model or "", exclusive)


def mig_part(environment: Mapping[str, str]) -> str:
    """The part of a GPU (MIG) that CUDA_VISIBLE_DEVICES names; empty: none."""
    first = environment.get(VISIBLE, "").partition(",")[0].strip()
    return first if first.startswith(MIG) else ""


def order(cards: Sequence[CardName], named: Sequence[str]) -> list[CardName]:
    """The chosen GPUs in the order in which they were named, else in PCI order."""

    def position(card: CardName) -> int:
        for at, name in enumerate(named):
            if name == str(card.gpu) or card.uuid.lower().startswith(name.lower()):
                return at
        return len(named)

    return sorted(cards, key=position)


def with_cards(
    environment: Mapping[str, str], cards: Sequence[CardName], named: Sequence[str]
) -> dict[str, str]:
    """An environment in which a program sees all of the chosen GPUs; unchanged without any.

    It has them as 0 to N-1, in PCI order, and CUDA_VISIBLE_DEVICES would choose among these
    numbers: so the variable stays only where GPUs were named in another order.
    """
    changed = dict(environment)
    if not cards:
        return changed
    changed.pop(VISIBLE, None)
    pci = sorted(cards, key=lambda card: card.gpu)
    wanted = order(cards, named)
    if wanted != pci:
        changed[VISIBLE] = ",".join(str(pci.index(card)) for card in wanted)
    return changed


def sentence(cards: Sequence[CardName]) -> str:
    """Which GPUs a program got, in words."""
    models = {card.name for card in cards}
    numbers = ", ".join(str(card.gpu) for card in cards)
    word = "GPUs" if len(cards) > 1 else "GPU"
    return f"it gets {word} {numbers} ({', '.join(sorted(models))})"
