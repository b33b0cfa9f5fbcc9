"""The users of this machine, by number and by name: asked beside the loop, which never waits.

What the system's tables say may come from a directory service (LDAP) that takes its time, or does
not answer. So each question is asked in a thread of its own. Until it is answered, only the user's
number is known: that is enough for sentences, and the code that applies rules decides what holds
meanwhile (docs/decisions/0033). An answer counts until there is another answer.
"""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")
KEPT: Final = 1024
"""Users that are remembered; the oldest answers are forgotten first."""
THREADS: Final = 8
"""Questions at a time, each to a directory service that may never answer."""
WAIT_S: Final = 2.0
"""Seconds that a command waits until its user is known."""
AGAIN_S: Final = 60.0
"""Seconds after which the tables are asked again for a user that they do not list: while LDAP is
down, they list none of its users."""


@dataclass(frozen=True, slots=True)
class User:
    """A user of this machine; without an entry in the system's tables only a number."""

    uid: int
    name: str
    groups: frozenset[str] = frozenset()
    is_known: bool = True
    """True once the tables have answered; before, only the number is known."""
    is_listed: bool = True
    """True if the tables have an entry."""


class Users:
    """The users that were asked for; may be used in every thread."""

    def __init__(
        self,
        ask: Callable[[int], User] | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ask` finds out about one user, and may take as long as it likes."""
        self._ask = ask or ask_tables
        self._now_s = now_s
        self._lock = threading.Lock()
        self._known: dict[int, User] = {}
        self._found_s: dict[int, float] = {}
        """By user: when it was found; without users that are to be asked for anew."""
        self._asking: dict[int, tuple[float, Future[User]]] = {}
        """By user: since when the question is open, and its answer."""
        self._waiting: deque[int] = deque()
        """Questions that have no thread yet."""
        self._threads = 0
        self.on_found: Callable[[User], None] | None = None
        """Called in any thread with each answer that differs from the one before."""

    def of(self, uid: int) -> User:
        """Return what is known of a user now, without waiting; ask the tables for the rest."""
        known = self._known.get(uid)
        if known is None or not self._is_new(known):
            self._question(uid)
        return known or User(uid, str(uid), is_known=False)

    def wait_for(self, uid: int, wait_s: float = WAIT_S) -> User:
        """Return a user once it is known, or what is known `wait_s` after the first question.

        It blocks, so it is not for an event loop.
        """
        known = self.of(uid)
        if known.is_known:
            return known
        since_s, answer = self._question(uid)
        try:
            return answer.result(max(0.0, since_s + wait_s - self._now_s()))
        except TimeoutError:
            return known

    async def found(self, uid: int, wait_s: float = WAIT_S) -> User:
        """The same as `wait_for`, for an event loop."""
        known = self.of(uid)
        if known.is_known:
            return known
        since_s, answer = self._question(uid)
        left_s = since_s + wait_s - self._now_s()
        if left_s > 0:
            await asyncio.wait([asyncio.wrap_future(answer)], timeout=left_s)
        return self.of(uid)

    def learn(self, user: User) -> None:
        """Use what an earlier agent found out about a user until the tables answer."""
        with self._lock:
            self._known.setdefault(user.uid, user)

    def forget(self) -> None:
        """Ask for every user anew when it is next needed; earlier answers count until then."""
        with self._lock:
            self._found_s.clear()

    def _is_new(self, known: User) -> bool:
        found_s = self._found_s.get(known.uid)
        if found_s is None:
            return False
        return known.is_listed or self._now_s() - found_s < AGAIN_S

    def _question(self, uid: int) -> tuple[float, Future[User]]:
        """Return the question about a user: a new one, the open one, or one just answered."""
        with self._lock:
            if uid not in self._asking:
                known = self._known.get(uid)
                if known is not None and self._is_new(known):
                    answered: Future[User] = Future()
                    answered.set_result(known)
                    return self._now_s(), answered
                self._asking[uid] = self._now_s(), Future()
                self._waiting.append(uid)
                if self._threads < THREADS:
                    self._threads += 1
                    threading.Thread(target=self._work, name="users", daemon=True).start()
            return self._asking[uid]

    def _work(self) -> None:
        """Ask all questions that wait, in a daemon thread."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                uid = self._waiting.popleft()
            try:
                user = self._ask(uid)
            except Exception:  # whatever a module of NSS raises: it is in no table
                user = User(uid, str(uid), is_listed=False)
            with self._lock:
                before = self._known.get(uid)
                if before is not None and before.is_listed and not user.is_listed:
                    user = before  # LDAP may be down: a listed user stays listed
                self._known[uid] = user
                self._found_s[uid] = self._now_s()
                while len(self._known) > KEPT:
                    oldest = next(iter(self._known))
                    del self._known[oldest]
                    self._found_s.pop(oldest, None)
                _, answer = self._asking.pop(uid)
            answer.set_result(user)
            if user != before and self.on_found is not None:
                self.on_found(user)


def ask_tables(uid: int) -> User:
    """Read one user from the system's tables; may take as long as they like."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return User(uid, str(uid), is_listed=False)
    try:
        gids = os.getgrouplist(entry.pw_name, entry.pw_gid)
    except OSError:
        gids = [entry.pw_gid]
    return User(uid, entry.pw_name, frozenset(map(group_name, gids)))


def group_name(gid: int) -> str:
    """Return a group's name, or its number if it has none; may take as long as it likes."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def beside(call: Callable[[], T]) -> Future[T]:
    """Run a call that may take as long as it likes, in a daemon thread."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="beside", daemon=True).start()
    return answer


def is_listed(user: str, wait_s: float = WAIT_S) -> bool:
    """Whether the tables have a user of this name or number; True if they do not answer in time."""

    def ask() -> bool:
        try:
            pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
        except (KeyError, OverflowError, ValueError):
            return False
        return True

    try:
        return beside(ask).result(wait_s)
    except TimeoutError:
        return True


USERS: Final = Users()
"""The users of this process."""


def name_of(uid: int) -> str:
    """Return a user's name, or its number while the name is unknown; never waits."""
    return USERS.of(uid).name
