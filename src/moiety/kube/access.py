"""Access to an API server: its address, its trusted certificates, and this client's identity.

In a pod, files and variables of the cluster give them; elsewhere kubeconfigs do. Tokens in files
are read again when they change, because a cluster renews them; a sign-in program is run again when
what it printed has ended.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Any, Final
from urllib.parse import quote

from moiety.kube import exec_credential, kubeconfig, oidc
from moiety.kube.exec_credential import ExecSession
from moiety.kube.kubeconfig import Selection
from moiety.model.errors import ClusterRefusal

IN_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXTENSION: Final = "client.authentication.k8s.io/exec"
"""The extension of a cluster in a kubeconfig that is meant for sign-in programs."""

Headers = tuple[tuple[str, str], ...]


def default_trust(*, cafile: str | None = None, cadata: str | None = None) -> SSLContext:
    """Verifies a server by these authorities, or by those of the system, as kubectl does."""
    found = create_default_context(cafile=cafile, cadata=cadata)
    # Since Python 3.13 the default is strict: it refuses certificates that do not name their
    # authority's key. Those of many clusters do not, and kubectl accepts them. Signature, dates,
    # purpose and name are verified all the same.
    found.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return found


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom this client acts as (`kubectl --as`), if its own rights allow that."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def headers(self) -> Headers:
        """The headers of each request; raises ClusterRefusal for groups without a user."""
        if not self.user:
            if self.groups or self.uid or self.extra:
                raise ClusterRefusal("a group or UID to act as needs a user", "--as USER")
            return ()
        found = [("Impersonate-User", self.user)]
        found += [("Impersonate-Group", each) for each in self.groups]
        if self.uid:
            found.append(("Impersonate-Uid", self.uid))
        found += [
            (f"Impersonate-Extra-{quote(key, safe='')}", value)
            for key, values in self.extra.items()
            for value in values
        ]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Access:
    """Where an API server is and how to speak to it."""

    server: str
    """https://HOST:PORT, without a slash at the end"""
    ssl: SSLContext | None = None
    """None: plain HTTP, which only servers of tests speak."""
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    namespace: str = "default"
    basic: str = field(default="", repr=False)
    """USER:PASSWORD; empty: none."""
    session: ExecSession | None = None
    """The sign-in program's credential, if the user has no other."""
    trust: Callable[[], SSLContext] = default_trust
    """Makes a context like `ssl`, for a certificate of the sign-in program."""
    server_name: str | None = None
    """The name in the server's certificate; None: that of its address."""
    proxy: str | None = None
    impersonation: Headers = ()

    def headers(self, token: str = "") -> dict[str, str]:
        """The header that says who this is, with a sign-in program's token if there is one.

        Raises ClusterRefusal if the token's file is not readable.
        """
        token = token or self.token
        if self.token_file is not None:
            try:
                token = self.token_file.read_text().strip()
            except OSError as error:
                raise ClusterRefusal(
                    f"the token in {self.token_file} is not readable: {error.strerror}",
                    "the pod's service account",
                ) from None
        if token:
            return {"Authorization": f"Bearer {token}"}
        if self.basic:
            return {"Authorization": f"Basic {base64.b64encode(self.basic.encode()).decode()}"}
        return {}

    def with_certificate(self, certificate: str, key: str) -> SSLContext | None:
        """A context that shows a certificate; raises ClusterRefusal for one that is none."""
        if self.ssl is None:
            return None
        found = self.trust()
        try:
            _show(found, certificate.encode(), key.encode())
        except ssl.SSLError as error:
            raise ClusterRefusal(f"the sign-in program's certificate is none: {error}") from None
        return found


def find(
    kubeconfig_file: str | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    context: str = "",
    acting_as: Impersonation | None = None,
) -> Access:
    """The API server of the named kubeconfig, of $KUBECONFIG, of the pod, or of ~/.kube/config.

    `context` is one of the kubeconfig's, and empty the current one. Raises ClusterRefusal if there
    is none, or if the file makes no sense.
    """
    environment = os.environ if environment is None else environment
    named = kubeconfig_file or environment.get("KUBECONFIG") or context
    if not named and environment.get("KUBERNETES_SERVICE_HOST"):
        found = of_pod(environment)
        return replace(found, impersonation=acting_as.headers()) if acting_as else found
    paths = [Path(kubeconfig_file)] if kubeconfig_file else kubeconfig.files(environment)
    if not paths:
        raise ClusterRefusal(
            "no cluster is known: this is no pod, and there is no kubeconfig",
            "--kubeconfig FILE, $KUBECONFIG or ~/.kube/config",
        )
    files = " and ".join(map(str, paths))
    try:
        return _access(kubeconfig.select(paths, context), acting_as or Impersonation())
    except (OSError, KeyError, TypeError, AttributeError, ValueError, ssl.SSLError) as error:
        problem = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ClusterRefusal(f"kubeconfig {files}: {problem}", "kubectl config view") from None


def of_pod(environment: Mapping[str, str], folder: Path = IN_POD) -> Access:
    """The server of the cluster that runs this pod; raises ClusterRefusal."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    shown = f"[{host}]" if ":" in host else host
    try:
        trusted = default_trust(cafile=str(folder / "ca.crt"))
        namespace = (folder / "namespace").read_text().strip()
    except (OSError, ssl.SSLError) as error:
        raise ClusterRefusal(
            f"this pod has no service account: {folder}: {error}",
            "automountServiceAccountToken: true",
        ) from None
    return Access(f"https://{shown}:{port}", trusted, "", folder / "token", namespace)


def _access(found: Selection, acting_as: Impersonation) -> Access:
    cluster, user = found.cluster, found.user
    server = str(cluster["server"]).rstrip("/")
    trusted: SSLContext | None = None
    if server.startswith("https:"):
        trusted = _trust(cluster)
        _prove(trusted, user)
    basic = f"{user['username']}:{user.get('password') or ''}" if user.get("username") else ""
    file = user.get("tokenFile")
    own = _impersonation(user)
    token, session = str(user.get("token") or ""), None
    if not (token or file or basic):
        token, session = _signed_in(user, cluster)
    return Access(
        server,
        trusted,
        token,
        Path(file) if file else None,
        found.namespace,
        basic,
        session,
        lambda: _trust(cluster),
        cluster.get("tls-server-name") or None,
        cluster.get("proxy-url") or None,
        (acting_as if acting_as != Impersonation() else own).headers(),
    )


def _signed_in(
    user: Mapping[str, Any], cluster: Mapping[str, Any]
) -> tuple[str, ExecSession | None]:
    """A token, or the session of a program that gives one; neither, if the user has none."""
    if user.get("exec") and user.get("auth-provider"):
        raise ValueError("it has both exec and auth-provider; one of them")
    if provider := user.get("auth-provider"):
        return oidc.id_token(provider), None
    if program := user.get("exec"):
        return "", ExecSession(exec_credential.read(program, _told(cluster)))
    return "", None


def _told(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """A cluster as sign-in programs are told of it."""
    found = {
        key: cluster[key]
        for key in (
            "server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data",
            "proxy-url",
        )
        if cluster.get(key)
    }  # fmt: skip
    if file := cluster.get("certificate-authority"):
        data = base64.b64encode(Path(file).read_bytes()).decode()
        found.setdefault("certificate-authority-data", data)
    for each in cluster.get("extensions") or []:
        if each.get("name") == EXTENSION:
            found["config"] = each.get("extension")
    return found


def _impersonation(user: Mapping[str, Any]) -> Impersonation:
    return Impersonation(
        str(user.get("as") or ""),
        tuple(str(each) for each in user.get("as-groups") or []),
        str(user.get("as-uid") or ""),
        {key: tuple(values) for key, values in (user.get("as-user-extra") or {}).items()},
    )


def _trust(cluster: Mapping[str, Any]) -> SSLContext:
    if text := cluster.get("certificate-authority-data"):
        trusted = default_trust(cadata=base64.b64decode(text).decode())
    elif file := cluster.get("certificate-authority"):
        trusted = default_trust(cafile=str(file))
    else:
        trusted = default_trust()
    if cluster.get("insecure-skip-tls-verify"):
        trusted.check_hostname = False
        trusted.verify_mode = ssl.CERT_NONE
    return trusted


def _prove(trusted: SSLContext, user: Mapping[str, Any]) -> None:
    """Have the connection show the user's certificate, if it has one."""
    both = []
    for field_ in ("client-certificate", "client-key"):
        if data := user.get(f"{field_}-data"):
            both.append(base64.b64decode(data))
        elif file := user.get(field_):
            both.append(Path(file).read_bytes())
    if len(both) == 2:
        _show(trusted, *both)


def _show(trusted: SSLContext, certificate: bytes, key: bytes) -> None:
    with tempfile.TemporaryDirectory() as scratch:  # ssl reads these from files only
        own, private = Path(scratch) / "crt", Path(scratch) / "key"
        own.write_bytes(certificate)
        private.touch(mode=0o600)
        private.write_bytes(key)
        trusted.load_cert_chain(own, private)
