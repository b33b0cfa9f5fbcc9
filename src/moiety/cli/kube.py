"""`moiety kube`: the programs that run in a cluster of Kubernetes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Final

import click

from moiety.cli.setting_options import setting_options, settled
from moiety.config.table import KubeSettings
from moiety.model.errors import ClusterRefusal

NEEDED: Final = ("aiohttp", "google.protobuf", "grpc")


@click.group()
def kube() -> None:
    """Give pods of Kubernetes a share of the GPUs."""


@kube.command()
@setting_options(KubeSettings)
def node(**given: Any) -> None:
    """Serve this node: claims (DRA), units (device plugin), and the health of the GPUs.

    It needs an agent on the same machine, and the rights of root. SIGTERM ends it; pods keep their
    shares.
    """
    must_have(NEEDED)
    from moiety.kube.device_accounting import ServiceMode
    from moiety.kube.node import main
    from moiety.kube.options import DriverOptions

    told = settled(KubeSettings, given)
    values = {field: value for field, value in vars(told).items() if value is not None}
    main(DriverOptions(**values | {"mode": ServiceMode(told.mode)}))


def must_have(modules: tuple[str, ...]) -> None:
    """Raise ClusterRefusal if a package that only Kubernetes needs is not installed."""
    for name in modules:
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:  # its parent package is missing, too
            found = None
        if found is None:
            raise ClusterRefusal(
                f"{name}, which is needed beside Kubernetes, is not installed",
                "`pip install 'moiety[kube]'`",
            )


@kube.command()
@click.option("--host", default="0.0.0.0", metavar="ADDRESS", show_default=True, help="Its own.")
@click.option("--port", default=9443, type=click.IntRange(0, 65535), help="Serve there (9443).")
@click.option(
    "--namespace", default="moiety-system", metavar="NAME", show_default=True, help="Its own."
)
@click.option("--kubeconfig", metavar="FILE", help="How the API server is reached.")
@click.option(
    "--client-ca",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Answer only clients with a certificate of this authority: the API server.",
)
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    metavar="NAME",
    help="Of these, the ones with this common name (may be repeated).",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="How it logs."
)
def webhook(log_format: str, **told: Any) -> None:
    """Read what new pods ask for, and write it as claims or units.

    The API server asks it; its certificate it makes and renews itself. SIGTERM ends it.
    """
    must_have(("aiohttp", "cryptography"))
    from moiety.config.values import LogFormat
    from moiety.kube.logs import open_log
    from moiety.kube.webhook.server import WebhookOptions, main

    main(WebhookOptions(**told), open_log(LogFormat(log_format)))
