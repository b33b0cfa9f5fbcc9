"""Errors of a cluster of Kubernetes."""

from __future__ import annotations

from moiety.model.errors.base import ExitCode, MoietyError


class ClusterRefusal(MoietyError):
    """Kubernetes' API server is not known, does not answer, or refuses."""

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint or "kubectl auth can-i --list, with the same kubeconfig")


class PodRefusal(MoietyError):
    """A pod has no share, or its share cannot become what was asked for."""

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, pod: str, problem: str, hint: str = "") -> None:
        super().__init__(f"pod {pod}: {problem}", hint or f"kubectl moiety explain {pod}")
