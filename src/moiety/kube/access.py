"""Access to an API server: its address, its trusted certificates, and this client's identity.

In a pod, files and variables of the cluster give them; elsewhere a kubeconfig does. Tokens in files
are read again when they change, because a cluster renews them.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moiety.model.errors import ClusterRefusal

IN_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
USUAL: Final = "~/.kube/config"


@dataclass(frozen=True, slots=True)
class Access:
    """Where an API server is and how to speak to it."""

    server: str
    """https://HOST:PORT, without a slash at the end"""
    ssl: ssl.SSLContext | None = None
    """None: plain HTTP, which only servers of tests speak."""
    token: str = ""
    token_file: Path | None = None
    namespace: str = "default"

    def headers(self) -> dict[str, str]:
        """The header with the token; raises ClusterRefusal if the token's file is not readable."""
        token = self.token
        if self.token_file is not None:
            try:
                token = self.token_file.read_text().strip()
            except OSError as error:
                raise ClusterRefusal(
                    f"the token in {self.token_file} is not readable: {error.strerror}",
                    "the pod's service account",
                ) from None
        return {"Authorization": f"Bearer {token}"} if token else {}


def find(kubeconfig: str | None = None, environment: Mapping[str, str] | None = None) -> Access:
    """The API server of the named kubeconfig, of the pod, or of the default kubeconfig.

    Raises ClusterRefusal if there is none, or if the file makes no sense.
    """
    environment = os.environ if environment is None else environment
    named = kubeconfig or environment.get("KUBECONFIG", "").split(":")[0]
    if named:
        return of_file(Path(named))
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return of_pod(environment)
    usual = Path(os.path.expanduser(USUAL))
    if usual.exists():
        return of_file(usual)
    raise ClusterRefusal(
        "no cluster is known: this is no pod, and there is no kubeconfig",
        f"--kubeconfig FILE, $KUBECONFIG or {USUAL}",
    )


def of_pod(environment: Mapping[str, str], folder: Path = IN_POD) -> Access:
    """The server of the cluster that runs this pod; raises ClusterRefusal."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    shown = f"[{host}]" if ":" in host else host
    try:
        trusted = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        namespace = (folder / "namespace").read_text().strip()
    except (OSError, ssl.SSLError) as error:
        raise ClusterRefusal(
            f"this pod has no service account: {folder}: {error}",
            "automountServiceAccountToken: true",
        ) from None
    return Access(f"https://{shown}:{port}", trusted, "", folder / "token", namespace)


def of_file(path: Path) -> Access:
    """The server of a kubeconfig's current context; raises ClusterRefusal."""
    try:
        read = _read(path)
        context = _named(read, "contexts", "context", read.get("current-context"))
        cluster = _named(read, "clusters", "cluster", context["cluster"])
        user = _named(read, "users", "user", context.get("user")) if context.get("user") else {}
        return _access(path.parent, cluster, user, context.get("namespace") or "default")
    except (OSError, KeyError, TypeError, ValueError, ssl.SSLError) as error:
        problem = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ClusterRefusal(f"kubeconfig {path}: {problem}", "kubectl config view") from None


def _read(path: Path) -> dict[str, Any]:
    """The content of a file in YAML or JSON; raises OSError or ValueError."""
    text = path.read_text()
    if text.lstrip().startswith("{"):
        read: dict[str, Any] = json.loads(text)
        return read
    try:
        import yaml  # only here: programs in pods never need it
    except ImportError:
        raise ValueError("PyYAML is not installed; `pip install 'moiety[kube]'`") from None
    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"it is no YAML: {error}") from None


def _named(read: Mapping[str, Any], group: str, kind: str, name: str | None) -> dict[str, Any]:
    for each in read.get(group) or []:
        if each.get("name") == name:
            found: dict[str, Any] = each.get(kind) or {}
            return found
    raise ValueError(f"there is no {name!r} among its {group}")


def _access(
    folder: Path, cluster: Mapping[str, Any], user: Mapping[str, Any], namespace: str
) -> Access:
    if "exec" in user or "auth-provider" in user:
        raise ValueError("it signs in with a program, which is not supported; use a token")
    server = str(cluster["server"]).rstrip("/")
    trusted: ssl.SSLContext | None = None
    if server.startswith("https:"):
        trusted = _trust(folder, cluster)
        _prove(trusted, folder, user)
    file = user.get("tokenFile")
    return Access(
        server,
        trusted,
        str(user.get("token") or ""),
        (folder / file) if file else None,
        namespace,
    )


def _trust(folder: Path, cluster: Mapping[str, Any]) -> ssl.SSLContext:
    if text := cluster.get("certificate-authority-data"):
        trusted = ssl.create_default_context(cadata=base64.b64decode(text).decode())
    elif file := cluster.get("certificate-authority"):
        trusted = ssl.create_default_context(cafile=str(folder / file))
    else:
        trusted = ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        trusted.check_hostname = False
        trusted.verify_mode = ssl.CERT_NONE
    return trusted


def _prove(trusted: ssl.SSLContext, folder: Path, user: Mapping[str, Any]) -> None:
    """Have the connection show the user's certificate, if it has one."""
    if user.get("client-certificate") and user.get("client-key"):
        trusted.load_cert_chain(folder / user["client-certificate"], folder / user["client-key"])
    elif user.get("client-certificate-data") and user.get("client-key-data"):
        with tempfile.TemporaryDirectory() as scratch:  # ssl reads these from files only
            own, key = Path(scratch) / "crt", Path(scratch) / "key"
            own.write_bytes(base64.b64decode(user["client-certificate-data"]))
            key.touch(mode=0o600)
            key.write_bytes(base64.b64decode(user["client-key-data"]))
            trusted.load_cert_chain(own, key)
