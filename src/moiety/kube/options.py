"""What the process of a node is told: the section [kube] of the settings."""

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
    """Where it is written down what pods have: beside an agent that has a folder of its own."""
    own = os.environ.get("MOIETY_DIR")
    return Path(own) / "kube" if own else STATE


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """How one node is served."""

    mode: ServiceMode = ServiceMode.DRA
    node: str = ""
    """its name in the cluster; empty: the machine's"""
    kubeconfig: str | None = None
    units: int = 100
    """that a GPU has, where pods get units"""
    resources: Mapping[str, str] = field(default_factory=dict)
    """of units beside moiety.dev/gpu: the models that each is of"""
    kubelet_dir: Path = KUBELET
    cdi_dir: Path = USUAL_DIR
    state_dir: Path = field(default_factory=usual_state_dir)
    native_dir: Path | None = None
    """where the machine sees our libraries; None: where they are, in a pod STATE's neighbour"""
    hook: bool | None = None
    """have the runtime look at images; None: unless this is a pod"""
    listen: Address | None = None
    recovery_s: float = 300.0
    every_s: float = 5.0
    """between two looks at the agent"""
    log_format: LogFormat = LogFormat.TEXT

    @property
    def name(self) -> str:
        """The node's."""
        return self.node or os.environ.get("NODE_NAME") or socket.gethostname().lower()

    @property
    def is_in_pod(self) -> bool:
        """Whether this process has files of its own, which the machine does not see."""
        return "KUBERNETES_SERVICE_HOST" in os.environ and self.kubeconfig is None

    @property
    def native(self) -> Path | None:
        """Where our libraries are put for the machine to see them; None: they are there."""
        return self.native_dir or (NATIVE if self.is_in_pod else None)

    @property
    def hooks(self) -> bool:
        """Whether the runtime is to run our Python before each container."""
        return not self.is_in_pod if self.hook is None else self.hook
