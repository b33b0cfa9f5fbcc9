"""Whose time a program uses: a user's, or on Kubernetes that of its pod's namespace.

Time that no program was promised is divided among owners first (arbiter/schedule/owners.py). All
pods of a machine have the same user, so their namespaces take the place of users. A program is its
owner's by what the kernel and the administrator say of it, never by its own word: only
administrators may give a share labels, and a process counts as the owner of its share whichever
user it is in its container.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAMESPACE: Final = "namespace"
"""The label of a share that names the namespace of its pod."""


def owner_of(account: int, labels: Mapping[str, str]) -> str:
    """The owner of the time of a share with these labels; `account` is the user who has it.

    A subordinate user's share is the account's that the user belongs to.
    """
    namespace = labels.get(NAMESPACE)
    return of_namespace(namespace) if namespace else of_user(account)


def of_user(account: int) -> str:
    """The name of a user as an owner of time."""
    return f"user {account}"


def of_namespace(namespace: str) -> str:
    """The name of a namespace as an owner of time."""
    return f"namespace {namespace}"
