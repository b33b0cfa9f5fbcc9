"""Which clients the webhook answers: with an authority, those that show a certificate of it.

The API server shows one where its AdmissionConfiguration says so. Probes of the kubelet show none,
so a connection without a certificate is made, and only its reviews are refused.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moiety.model.errors import ClusterRefusal


class ReviewClients:
    """The clients whose reviews are answered."""

    def __init__(self, authority: Path | None = None, names: tuple[str, ...] = ()) -> None:
        """`authority` is a file of certificates in PEM; None: all clients.

        `names` are the common names of certificates that count; empty: all of the authority's.
        """
        self.authority = authority
        self.names = names

    def demand(self, context: ssl.SSLContext) -> None:
        """Have connections ask for a certificate.

        Raises ClusterRefusal if the authority's file has none.
        """
        if self.authority is None:
            return
        try:
            context.load_verify_locations(cafile=self.authority)
        except (OSError, ssl.SSLError) as error:
            raise ClusterRefusal(
                f"{self.authority} has no certificates of an authority: {error}",
                "a file in PEM for --client-ca",
            ) from None
        context.verify_mode = ssl.CERT_OPTIONAL

    def refuse(self, certificate: Mapping[str, Any] | None) -> str:
        """Why the reviews of a client are not answered; empty: they are.

        `certificate` is what the connection says of the client's, verified; empty: there is none.
        """
        if self.authority is None:
            return ""
        if not certificate:
            return "the webhook answers the API server, which shows a certificate"
        name = _common_name(certificate)
        if self.names and name not in self.names:
            return f"the webhook does not answer {name or 'a certificate without a name'}"
        return ""


def _common_name(certificate: Mapping[str, Any]) -> str:
    parts = (pair for part in certificate.get("subject") or () for pair in part)
    return next((str(value) for key, value in parts if key == "commonName"), "")
