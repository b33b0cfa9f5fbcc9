"""Signs in with a program, as a kubeconfig's `exec` says (client.authentication.k8s.io).

The program prints an ExecCredential: a token, or a certificate with its key, and perhaps a time at
which it expires. What it printed is kept until then, or until the API server refuses it.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moiety.model.errors import ClusterRefusal

GROUP: Final = "client.authentication.k8s.io"
VERSIONS: Final = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
MODES: Final = ("Never", "IfAvailable", "Always")
EARLY_S: Final = 10.0
"""How long before its end a credential is renewed, so that it does not end on its way."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a program printed."""

    token: str = field(default="", repr=False)
    certificate: str = ""
    """In PEM; empty: none."""
    key: str = field(default="", repr=False)
    expires_at: float = float("inf")
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """The program that a kubeconfig names; `run` raises ClusterRefusal."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = VERSIONS[0]
    interactive_mode: str = "IfAvailable"
    cluster: Mapping[str, Any] | None = None
    """The cluster as the program is told of it; None: it is not told."""
    install_hint: str = ""

    def run(self) -> Credential:
        """Run the program once, and read what it prints."""
        is_interactive = self._is_interactive()
        spec: dict[str, Any] = {"interactive": is_interactive}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        asked = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        env = {**os.environ, **self.env, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
        try:
            done = subprocess.run(
                [self.command, *self.args],
                env=env,
                stdin=None if is_interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                check=False,
            )
        except OSError as error:
            raise self._refusal(f"cannot be run: {error.strerror}", self.install_hint) from None
        if done.returncode:
            raise self._refusal(f"ended with {done.returncode}", self.install_hint)
        return self._read(done.stdout)

    def _is_interactive(self) -> bool:
        has_terminal = sys.stdin is not None and sys.stdin.isatty()
        if self.interactive_mode == "Always" and not has_terminal:
            raise self._refusal("asks on a terminal, and there is none", "a terminal, or a token")
        return has_terminal and self.interactive_mode != "Never"

    def _read(self, printed: bytes) -> Credential:
        try:
            read = json.loads(printed)
            version, kind, status = read["apiVersion"], read["kind"], read["status"]
            expires = status.get("expirationTimestamp")
            found = Credential(
                str(status.get("token") or ""),
                str(status.get("clientCertificateData") or ""),
                str(status.get("clientKeyData") or ""),
                dt.datetime.fromisoformat(expires).timestamp() if expires else float("inf"),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise self._refusal(f"printed no ExecCredential: {problem}") from None
        if (version, kind) != (self.api_version, "ExecCredential"):
            raise self._refusal(f"printed {version} {kind}, and not {self.api_version}")
        if bool(found.certificate) != bool(found.key):
            raise self._refusal("printed a certificate without its key, or a key without one")
        if not found.token and not found.certificate:
            raise self._refusal("printed neither a token nor a certificate")
        return found

    def _refusal(self, problem: str, hint: str = "") -> ClusterRefusal:
        hint = hint or "run it by hand: kubectl config view --minify shows its arguments"
        return ClusterRefusal(f"the kubeconfig's sign-in program {self.command} {problem}", hint)


class ExecSession:
    """One user's credential: made when it is first needed, and again when it has ended."""

    def __init__(self, plugin: ExecPlugin, now: Callable[[], float] = time.time) -> None:
        self.plugin = plugin
        self._now = now
        self._found: Credential | None = None
        self._lock = threading.Lock()

    def credential(self) -> Credential:
        """The present credential; runs the program if it has none. Raises ClusterRefusal."""
        with self._lock:
            if self._found is None or self._found.expires_at - EARLY_S <= self._now():
                self._found = self.plugin.run()
            return self._found

    def refused(self, credential: Credential) -> None:
        """Forget a credential that the API server refused."""
        with self._lock:
            if self._found is credential:
                self._found = None


def read(said: Mapping[str, Any], cluster: Mapping[str, Any]) -> ExecPlugin:
    """The program of a kubeconfig's `exec`; raises ValueError.

    `cluster` is what the program is told of the cluster, if it wants to know it.
    """
    version = str(said.get("apiVersion") or "")
    if version not in VERSIONS:
        raise ValueError(f"its sign-in program speaks {version!r}, not {' or '.join(VERSIONS)}")
    mode = said.get("interactiveMode") or ("IfAvailable" if version == VERSIONS[1] else "")
    if mode not in MODES:
        raise ValueError(
            f"interactiveMode of its sign-in program is {mode!r}, and none of {', '.join(MODES)}"
        )
    return ExecPlugin(
        str(said["command"]),
        tuple(str(each) for each in said.get("args") or []),
        {str(each["name"]): str(each["value"]) for each in said.get("env") or []},
        version,
        mode,
        cluster if said.get("provideClusterInfo") else None,
        str(said.get("installHint") or "").strip(),
    )
