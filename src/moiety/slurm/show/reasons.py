"""Why a job waits or has failed, in Slurm's words; the engine's sentence says it in numbers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from moiety.pool.model import holds

BY_KIND: Final = {
    "no-nodes": "Resources",
    "model": "BadConstraints",
    "gpu-size": "BadConstraints",
    "node-size": "BadConstraints",
    "gpus-drained": "ReqNodeNotAvail",
    "gpus-full": "Resources",
    "cpu-full": "Resources",
    "memory-full": "Resources",
    "not-allowed": "Resources",
    "topology": "Resources",
    "not-yet": "Priority",
    "reserved": "Priority",
    "queue-limit": "AssocGrpGRES",
    "queue-quota": "AssocGrpGRES",
    "array-limit": "JobArrayTaskLimit",
    "back-off": "BeginTime",
}
"""By the engine's kind: the nearest of Slurm's reasons."""
FAILED: Final = "NonZeroExitCode"


def reason_of(row: Mapping[str, Any], kind: str = "", now_s: float | None = None) -> str:
    """Slurm's word for why a job waits, is held or has ended."""
    state, now_s = row["state"], time.time() if now_s is None else now_s
    if state == "held":
        if row["failures"]:
            return "JobHoldMaxRequeue"
        is_own = row["reason"] in ("", holds.BY_ITS_USER, holds.reason_of(row["user"]))
        return "JobHeldUser" if is_own else "JobHeldAdmin"
    if state == "pending":
        return _waiting(row, kind, now_s)
    if state == "failed":
        if row["exit_code"]:
            return FAILED
        return "RaisedSignal" if row["exit_signal"] else "NodeDown"
    return "TimeLimit" if state == "timed out" else "None"


def _waiting(row: Mapping[str, Any], kind: str, now_s: float) -> str:
    if row.get("blocked") == "never":
        return "DependencyNeverSatisfied"
    if row.get("blocked") == "waits":
        return "Dependency"
    if max(row["begin_after_s"], row["not_before_s"]) > now_s:
        return "BeginTime"
    return BY_KIND.get(kind, "Priority" if kind else "None")
