"""The container, pod and unit of a process, from its control groups.

Runtimes name a container's group after the container, each in its own way, and differently for the
two drivers (cgroupfs, systemd). The input is the text of /proc/PID/cgroup (cgroups(7)), of version
1, 2 or both. Groups nest: of nested containers, the innermost counts. Of pods, the outermost
counts: a pod may be allowed to make groups, and could name one after another pod.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

PREFERRED: Final = ("", "name=systemd", "devices", "memory", "pids", "cpu")
"""Order in which hierarchies are believed: version 2, then those that every runtime sets."""

_ID = r"[0-9a-f]{64}"
_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"

_SCOPES: Final = {
    "docker": "docker",
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "crio": "cri-o",
    "libpod": "podman",
}
"""By prefix of the container's number: the runtime."""
_SCOPE: Final = re.compile(rf"^({'|'.join(_SCOPES)})-({_ID})(?:\.scope)?$")
_COLONS: Final = re.compile(rf"^[^:]+:({'|'.join(_SCOPES)}):({_ID})$")
"""A name for the systemd driver that was taken for a path."""
_POD: Final = re.compile(rf"^(?:kubelet-)?(?:kubepods(?:-besteffort|-burstable)?-)?pod({_UID})")
_NUMBER: Final = re.compile(rf"^{_ID}$")
_LXC: Final = re.compile(r"^lxc\.payload\.(.+)$")
_JOB: Final = re.compile(r"^job_(\d+)$")
_USER: Final = re.compile(r"^user-(\d+)\.slice$")
_FAMILIES: Final = {
    "docker": "docker",
    "moby": "docker",
    "ecs": "docker",
    "actions_job": "docker",
    "libpod_parent": "podman",
    "default": "containerd",
}
"""By folder of the cgroupfs driver whose containers are named by a number: the runtime."""
_NAMED: Final = {"lxc": "lxc", "lxc.payload": "lxc", "buildkit": "buildkit"}
"""By folder whose children are all containers: the runtime."""
_UNIT_ENDS: Final = (".service", ".scope")
_DELETED: Final = " (deleted)"


@dataclass(frozen=True, slots=True)
class CgroupPlacement:
    """Where a process runs; an empty field is unknown, or does not apply."""

    container: str = ""
    """The container's number of 64 hex digits, or its name where it has only that (LXC)."""
    runtime: str = ""
    """One of docker, containerd, cri-o, podman, lxc, buildkit."""
    pod: str = ""
    """A Kubernetes pod's UID; 32 hex digits without dashes for a static pod."""
    unit: str = ""
    """The innermost service or scope of systemd that is no container's."""
    job: str = ""
    """The number of its Slurm job."""
    session_uid: int | None = None
    """The user of its login session or user manager."""

    @property
    def short(self) -> str:
        """The container as people write it: twelve digits of its number."""
        return self.container[:12] if _NUMBER.match(self.container) else self.container


def parse(text: str) -> CgroupPlacement:
    """Parse /proc/PID/cgroup; invalid lines are skipped."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number.isdecimal() and path.startswith("/"):
            for controller in controllers.split(","):
                paths[controller] = path.removesuffix(_DELETED)
    order = [*PREFERRED, *sorted(paths.keys() - set(PREFERRED))]
    found = [placement(paths[name]) for name in order if name in paths]
    return _first(found)


def _first(found: list[CgroupPlacement]) -> CgroupPlacement:
    """The first value of each field; a container together with its runtime."""
    held = next((each for each in found if each.container), CgroupPlacement())
    return CgroupPlacement(
        container=held.container,
        runtime=held.runtime,
        pod=next((each.pod for each in found if each.pod), ""),
        unit=next((each.unit for each in found if each.unit), ""),
        job=next((each.job for each in found if each.job), ""),
        session_uid=next((e.session_uid for e in found if e.session_uid is not None), None),
    )


def placement(path: str) -> CgroupPlacement:
    """The placement of one path of control groups, from the root to the innermost group."""
    container = runtime = pod = unit = job = parent = family = ""
    session_uid: int | None = None
    for part in path.split("/"):
        if part in ("", ".", ".."):
            continue
        if part.startswith(("kubepods", "kubelet-kubepods")):
            family = ""  # groups below may belong to any runtime
        if not pod and (match := _POD.match(part)):  # a pod may make any group below its own
            pod = match[1].replace("_", "-")
        if match := _SCOPE.match(part) or _COLONS.match(part):
            container, runtime = match[2], _SCOPES[match[1]]
        elif _NUMBER.match(part):
            container, runtime = part, family
        elif match := _LXC.match(part):
            container, runtime = match[1], "lxc"
        elif parent in _NAMED:
            container, runtime = part, _NAMED[parent]
        elif match := _JOB.match(part):
            job = match[1]
        elif match := _USER.match(part):
            session_uid = int(match[1])
        elif part.endswith(_UNIT_ENDS):
            unit = part
        family = _FAMILIES.get(part, family)
        parent = part
    return CgroupPlacement(container, runtime, pod, unit, job, session_uid)
