"""Limits of what one user can take of the agent, so that other users are served.

No honest program comes near them. A user beyond a limit is refused, waits, or loses its connection.
"""

from __future__ import annotations

import math
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from moiety.agent.core.read_turns import PACKETS_A_TURN
from moiety.agent.system.subordinate_users import unchanged
from moiety.agent.system.users import name_of

MESSAGES: Final = 12_800.0
RESERVE: Final = 16
DESCRIPTORS_EACH: Final = 8
"""Descriptors of the agent that one process with its workload takes."""
PATIENCE_S: Final = 5.0
"""A connection that is beyond the rate for longer is closed."""
CALM_S: Final = 1.0
"""A connection that did not have to wait for so long is within the rate again."""


@dataclass(slots=True)
class UserQuota:
    """Counts how many of `what` each user has, and all users have together."""

    each: int
    together: int
    what: str
    account_of: Callable[[int], int] = unchanged
    """The user who accounts for a user."""
    counts: Counter[int] = field(default_factory=Counter)
    """By user who accounts for others."""
    whole: int = 0
    _own: Counter[int] = field(default_factory=Counter)
    _accounts: dict[int, int] = field(default_factory=dict)
    """Who accounts for each user that has some: the same as long as it has any."""

    def refuse(self, uid: int, *, is_admin: bool = False) -> str:
        """Why this user may have no more; empty if it may.

        An administrator may have all of `together`, and RESERVE more when others have that.
        """
        account = self._account(uid)
        if self.counts[account] >= self.each and not is_admin:
            return f"{name_of(account)} has {self.each} {self.what}, which is the limit of one user"
        if self.whole >= self.together + RESERVE * is_admin:
            return f"all users together have {self.together} {self.what}, which is the limit"
        return ""

    def take(self, uid: int) -> None:
        """Count one more."""
        account = self._accounts[uid] = self._account(uid)
        self.counts[account] += 1
        self._own[uid] += 1
        self.whole += 1

    def give(self, uid: int) -> None:
        """Count one less."""
        account = self._account(uid)
        self.whole -= 1
        self.counts[account] -= 1
        self._own[uid] -= 1
        if not self.counts[account]:
            del self.counts[account]
        if not self._own[uid]:
            del self._own[uid]
            del self._accounts[uid]

    def _account(self, uid: int) -> int:
        return self._accounts[uid] if uid in self._accounts else self.account_of(uid)


@dataclass(slots=True)
class TokenBucket:
    """The amount that one user may still spend: it fills with time, up to a burst."""

    left: float
    since_s: float


@dataclass(slots=True)
class TokenRate:
    """A rate for each user: `per_s` a second, after a burst of `burst_s` seconds' worth."""

    per_s: float
    burst_s: float = 10.0
    account_of: Callable[[int], int] = unchanged
    """The user who accounts for a user."""
    buckets: dict[int, TokenBucket] = field(default_factory=dict)

    def spend(self, uid: int, now_s: float, amount: float = 1.0) -> float:
        """Take `amount`; returns how long to wait before the next, in seconds."""
        most = self.per_s * self.burst_s
        uid = self.account_of(uid)
        bucket = self.buckets.get(uid)
        if bucket is None:
            if len(self.buckets) > 1024:
                self._forget_full(now_s)
            bucket = self.buckets[uid] = TokenBucket(most, now_s)
        bucket.left = min(most, bucket.left + (now_s - bucket.since_s) * self.per_s) - amount
        bucket.since_s = now_s
        return max(0.0, -bucket.left / self.per_s)

    def _forget_full(self, now_s: float) -> None:
        """Drop the buckets that are full again: a new bucket is the same."""
        for uid, bucket in list(self.buckets.items()):
            if now_s - bucket.since_s > self.burst_s:
                del self.buckets[uid]


class Flood:
    """Finds whether one connection stays beyond the rate of its user.

    Only its own waits count. So a process that connects again begins anew, and a program is not
    closed because of another program of its user.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        """A flood lasts for longer than `patience_s`."""
        self._patience_s = patience_s
        self._since_s = 0.0
        self._until_s = -math.inf
        """When its last wait ends."""

    def waits(self, wait_s: float, now_s: float) -> bool:
        """Note how long a connection that sent a burst has to wait; returns whether it floods."""
        if now_s > self._until_s + CALM_S:
            self._since_s = now_s
        if wait_s > 0:
            self._until_s = now_s + wait_s
        return now_s - self._since_s > self._patience_s


class RateLimits:
    """All limits of one agent."""

    GREETING_S: Final = 10.0
    """Seconds after which a connection without a greeting is closed."""
    SILENCE_S: Final = 300.0
    """The same for a command that has greeted."""
    ROWS_A_REQUEST: Final = 8
    """Programs in a list that take the agent as long as one more request."""

    def __init__(
        self,
        descriptors: int | None = None,
        messages_per_s: float = MESSAGES,
        account_of: Callable[[int], int] = unchanged,
    ) -> None:
        """`descriptors`: what the agent may have open. `messages_per_s`: of one user's programs.

        `account_of` names the user who accounts for a user: its programs count as that user's.
        """
        self.account_of = account_of
        if descriptors is None:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            descriptors = 1 << 16 if soft == resource.RLIM_INFINITY else soft
        together = max(64, min(8192, descriptors // DESCRIPTORS_EACH))
        each = max(32, min(2048, together // 2))
        self.processes = UserQuota(each, together, "processes that share GPUs", account_of)
        self.connections = UserQuota(each + 64, together + 256, "connections", account_of)
        """Includes connections that have not greeted yet."""
        self.workloads = UserQuota(max(32, each // 2), together, "workloads", account_of)
        self.waiting = UserQuota(
            max(32, each // 2), together, "commands that wait for GPUs", account_of
        )
        self.conversations = UserQuota(64, 512, "conversations with the agent", account_of)
        self.requests = TokenRate(200.0, burst_s=5.0, account_of=account_of)
        self.turns = TokenRate(messages_per_s / PACKETS_A_TURN, account_of=account_of)
        """Turns of PACKETS_A_TURN messages of one process; only a process that sends faster than
        the agent reads has such turns."""
