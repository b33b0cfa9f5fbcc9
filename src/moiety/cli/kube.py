"""`moiety kube`: what runs in a cluster of Kubernetes."""

from __future__ import annotations

import importlib.util
from typing import Any, Final

import click

from moiety.cli.settings import setting_options, settled
from moiety.model.errors import ClusterRefusal

NEEDED: Final = ("aiohttp", "google.protobuf", "grpc")


@click.group()
def kube() -> None:
    """Give pods of Kubernetes a share of the GPUs."""


@kube.command()
@setting_options("kube")
def node(**given: Any) -> None:
    """Serve this node: claims (DRA), units (device plugin), and the health of the GPUs.

    It needs an agent on the same machine, and the rights of root. SIGTERM ends it; what pods have
    stays theirs.
    """
    must_have(NEEDED)
    from moiety.kube.ledger import Mode
    from moiety.kube.node import main
    from moiety.kube.options import Options

    values = settled("kube", given)
    values["mode"] = Mode(values["mode"])
    main(Options(**{field: value for field, value in values.items() if value is not None}))


def must_have(modules: tuple[str, ...]) -> None:
    """Raise ClusterRefusal if what Kubernetes needs beyond moiety itself is not installed."""
    for name in modules:
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:  # what it is in is not there either
            found = None
        if found is None:
            raise ClusterRefusal(
                f"{name}, which is needed beside Kubernetes, is not installed",
                "`pip install 'moiety[kube]'`",
            )
