"""The options of a node's process: the section [kube] of the settings."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from moiety.config.values import Address, LogFormat
from moiety.kube.cdi_specs import USUAL_DIR
from moiety.kube.device_accounting import ServiceMode

KUBELET: Final = Path("/var/lib/kubelet")
STATE: Final = Path("/var/lib/moiety/kube")
NATIVE: Final = Path("/var/lib/moiety/native")


def usual_state_dir() -> Path:
    """The folder of the checkpoint: in $MOIETY_DIR if it is set, else the system's."""
    own = os.environ.get("MOIETY_DIR")
    return Path(own) / "kube" if own else STATE


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """The options of one node."""

    mode: ServiceMode = ServiceMode.DRA
    node: str = ""
    """The node's name in the cluster; empty: the machine's name."""
    kubeconfig: str | None = None
    resources: Mapping[str, str] = field(default_factory=dict)
    """Further resources beside moiety.dev/gpu-percent, each with the models of its GPUs."""
    kubelet_dir: Path = KUBELET
    cdi_dir: Path = USUAL_DIR
    state_dir: Path = field(default_factory=usual_state_dir)
    native_dir: Path | None = None
    """Where the machine sees moiety's libraries; None: in place, or in a pod `NATIVE`."""
    hook: bool | None = None
    """Whether the runtime checks images; None: unless this is a pod."""
    listen: Address | None = None
    recovery_s: float = 300.0
    every_s: float = 5.0
    """Seconds between two looks at the agent."""
    binding_checks: bool = False
    """Whether pods that cannot be prepared are refused before they are bound."""
    log_format: LogFormat = LogFormat.TEXT

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node or os.environ.get("NODE_NAME") or socket.gethostname().lower()

    @property
    def is_in_pod(self) -> bool:
        """Whether this process runs in a pod, whose files the machine does not see."""
        return "KUBERNETES_SERVICE_HOST" in os.environ and self.kubeconfig is None

    @property
    def native(self) -> Path | None:
        """Where moiety's libraries are copied for the machine; None: no copy is needed."""
        return self.native_dir or (NATIVE if self.is_in_pod else None)

    @property
    def hooks(self) -> bool:
        """Whether the runtime runs moiety's hook before each container."""
        return not self.is_in_pod if self.hook is None else self.hook
