"""The id token of a kubeconfig's `auth-provider: oidc`, while it is valid.

Moiety does not renew it: that needs the client's secret and a browser. A sign-in program does
(kubelogin), and kubeconfigs name it under `exec`.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from moiety.model.errors import ClusterRefusal

EARLY_S: Final = 10.0
INSTEAD: Final = "kubelogin: `kubectl oidc-login setup`, which writes `exec` into the kubeconfig"


def id_token(provider: Mapping[str, Any], now_s: float | None = None) -> str:
    """The token of an `auth-provider`; raises ClusterRefusal if it has none that is valid."""
    name = provider.get("name")
    if name != "oidc":
        raise ClusterRefusal(
            f"the kubeconfig signs in with auth-provider {name}, which is not supported",
            "a sign-in program (`exec`), such as gke-gcloud-auth-plugin or kubelogin",
        )
    token = str((provider.get("config") or {}).get("id-token") or "")
    if not token:
        raise ClusterRefusal("the kubeconfig's auth-provider oidc has no id-token", INSTEAD)
    expires = _expires(token)
    if expires is not None and expires - EARLY_S <= (time.time() if now_s is None else now_s):
        ended = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(expires))
        raise ClusterRefusal(
            f"the kubeconfig's id-token expired at {ended} UTC, and moiety does not renew it",
            INSTEAD,
        )
    return token


def _expires(token: str) -> float | None:
    """When a token ends, in seconds since 1970; None if it does not say so in a known way."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
