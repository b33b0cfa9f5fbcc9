"""What a step has decided so far: leases leave at once, where nothing else has to leave before."""

from __future__ import annotations

from collections.abc import Callable

from moiety.arbiter import instructions as do

OnLease = Callable[[do.Grant | do.Revoke], None]
"""Carries out what gives or takes a lease; it must not come back to the arbiter."""


class Out(list[do.Instruction]):
    """The instructions of one step, in order.

    Whoever waits for a lease waits for the first of them that gives or takes one, and not for what
    the same step decides after it. So that one is carried out as soon as it stands, unless others
    are ahead of it: those are first.
    """

    def __init__(self, on_lease: OnLease | None) -> None:
        """Nothing is decided yet; without `on_lease` all stays in the list."""
        super().__init__()
        self._on_lease = on_lease

    def lease(self, instruction: do.Grant | do.Revoke) -> None:
        """Give or take a lease."""
        if self or self._on_lease is None:
            self.append(instruction)
        else:
            self._on_lease(instruction)
