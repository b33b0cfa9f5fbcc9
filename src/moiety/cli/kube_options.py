"""The options of `kubectl moiety` that name the cluster and the user, as kubectl's own do.

They may stand before the command or after it, as kubectl's may.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from moiety.kube.access import Access


@dataclass(slots=True)
class ClusterOptions:
    """The options as typed; each empty one is kubectl's default."""

    kubeconfig: str = ""
    context: str = ""
    as_user: str = ""
    as_group: tuple[str, ...] = ()
    as_uid: str = ""
    _access: Access | None = None

    def access(self) -> Access:
        """The access that they name; raises ClusterRefusal.

        It is the same each time, so that a sign-in program runs once, and not for each look.
        """
        from moiety.kube.access import Impersonation, find

        if self._access is None:
            acting_as = Impersonation(self.as_user, self.as_group, self.as_uid)
            file = self.kubeconfig or None
            self._access = find(file, context=self.context, acting_as=acting_as)
        return self._access

    def typed(self) -> list[str]:
        """The same options for kubectl."""
        named = {
            "--kubeconfig": self.kubeconfig,
            "--context": self.context,
            "--as": self.as_user,
            "--as-uid": self.as_uid,
        }
        found = [word for option, text in named.items() if text for word in (option, text)]
        return found + [word for group in self.as_group for word in ("--as-group", group)]


def _keep(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    """Keep a typed option where the command finds it; one after the command counts for more."""
    if value:
        setattr(ctx.ensure_object(ClusterOptions), str(option.name), value)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options; it finds them in its context's object."""
    for words, told in (
        (("--as-uid",), {"metavar": "UID", "help": "And with this UID."}),
        (("--as-group",), {"metavar": "GROUP", "multiple": True, "help": "And in this group."}),
        (("--as", "as_user"), {"metavar": "USER", "help": "Act as this user."}),
        (("--context",), {"metavar": "NAME", "help": "A context of the kubeconfig."}),
        (("--kubeconfig",), {"metavar": "FILE", "help": "How the API server is reached."}),
    ):
        command = click.option(*words, **told, expose_value=False, callback=_keep)(command)
    return command
