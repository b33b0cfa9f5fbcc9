"""Which GPUs of a node a task gets, once the node is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb
from typing import Final, Protocol

from moiety.policy.model.cluster import WHOLE_GPU, Choosing, Node

TRIED_MAX: Final = 500
"""The most sets of GPUs that are compared; beyond that, a set is grown one GPU at a time."""


class Shuffler(Protocol):
    """A source of random orders, such as a generator of numpy."""

    def shuffle(self, x: list[int], /) -> None:
        """Put a list into a random order."""


def choose(
    node: Node,
    left: Sequence[int],
    count: int,
    milli: int,
    choosing: Choosing,
    random: Shuffler | None = None,
) -> tuple[int, ...]:
    """`count` GPUs, each with `milli` of the thousandths that are `left`; there are enough.

    For more than one whole GPU, the choice is the set with the fastest links, if links are known:
    all rules find whole GPUs equal otherwise. For parts of several GPUs, `least-busy` takes the set
    with the fewest busy GPUs, then the one with the fastest links, then the least busy one in
    tenths. `rule` is best-fit here. `random` is needed for the random choice alone.
    """
    linked = count > 1 and any(gpu.links for gpu in node.gpus)
    fitting = [gpu for gpu, amount in enumerate(left) if amount >= milli]
    if choosing is Choosing.RANDOM:
        if random is None:
            raise ValueError("a random choice needs a source of random orders")
        random.shuffle(fitting)
    elif milli == WHOLE_GPU:
        if linked and count < len(fitting):
            return _connected(node, fitting, count)
    elif choosing is Choosing.LEAST_BUSY and linked and count < len(fitting):
        return _connected(node, fitting, count, left)
    elif choosing is Choosing.LEAST_BUSY and any(g.utilisation is not None for g in node.gpus):
        fitting.sort(key=lambda gpu: (round(10 * (node.gpus[gpu].utilisation or 0)), -left[gpu]))
    elif choosing in (Choosing.RULE, Choosing.BEST_FIT):
        fitting.sort(key=left.__getitem__)
    elif choosing in (Choosing.WORST_FIT, Choosing.LEAST_BUSY):
        fitting.sort(key=left.__getitem__, reverse=True)
    return tuple(sorted(fitting[:count]))


def _connected(
    node: Node, fitting: list[int], count: int, left: Sequence[int] | None = None
) -> tuple[int, ...]:
    """The set with the most link speed inside; among equals, the one with the most left outside.

    With `left`, what is left of each GPU, sets with fewer busy GPUs go before, and among equally
    linked ones the least busy.
    """
    speed = {(gpu.index, link.peer): link.gbps for gpu in node.gpus for link in gpu.links}

    def inside(gpus: Iterable[int]) -> float:
        return sum(
            speed.get((one, other), 0.0) + speed.get((other, one), 0.0)
            for one, other in combinations(gpus, 2)
        )

    def free(gpus: Iterable[int], digits: int) -> float:
        """How little the GPUs are busy, each rounded to that many digits; 0 if it is no matter."""
        busy = (round(node.gpus[gpu].utilisation or 0.0, digits) for gpu in gpus)
        return 0.0 if left is None else -sum(busy)

    if comb(len(fitting), count) <= TRIED_MAX:
        return max(
            combinations(fitting, count),
            key=lambda gpus: (
                free(gpus, 0),
                inside(gpus),
                free(gpus, 1),
                sum(left[gpu] for gpu in gpus) if left else 0,
                inside([gpu for gpu in fitting if gpu not in gpus]),
                [-gpu for gpu in gpus],
            ),
        )
    grown = list(
        max(combinations(fitting, 2), key=lambda gpus: (free(gpus, 0), inside(gpus), free(gpus, 1)))
    )
    while len(grown) < count:
        rest = [gpu for gpu in fitting if gpu not in grown]
        grown.append(
            max(
                rest,
                key=lambda gpu: (free([gpu], 0), inside([*grown, gpu]), free([gpu], 1)),
            )
        )
    return tuple(sorted(grown))
