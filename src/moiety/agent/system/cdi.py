"""How a share gets into a container: by a CDI specification, or by options of `docker run`.

A specification of the Container Device Interface (CNCF, SPEC.md of its repository) tells a runtime
what to add to a container that asks for a device: here the shim, the folder with the socket,
the file that makes the loader load the shim, and the driver. It names the oldest version that has
all that, because a runtime refuses a specification that is newer than itself.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moiety.agent.system import container_files
from moiety.config.places import user_folder
from moiety.devices.loader import find_library
from moiety.devices.native import is_simulated, simgpu_state_dir
from moiety.model.errors import BadArgument

VERSION: Final = "0.3.0"
KIND: Final = "moiety.dev/gpu"
NAME: Final = re.compile(r"[a-z](?:[a-z0-9._-]{0,30}[a-z0-9])?")
SYSTEM_DIR: Final = Path("/etc/cdi")
NVIDIA_SPECS: Final = ("/etc/cdi", "/var/run/cdi")
LIBRARY_DIRS: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")
"""Where glibc looks by default: of Debian's family and of Red Hat's."""
STATE_INSIDE: Final = "/opt/moiety/simgpu"
DRIVER_LIBRARIES: Final = (
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-nvvm.so.4",
)
"""The libraries that programs, NVIDIA's runtime and libcuda itself load."""
UNVERSIONED: Final = ("libnvidia-gpucomp.so",)
"""Libraries of the driver whose file name has its whole version."""
PASSED_ON: Final = (
    "HOME",
    "MOIETY_AGENT",
    "MOIETY_CONFIG",
    "MOIETY_DIR",
    "MOIETY_LOCK_DIR",
    "MOIETY_NATIVE",
    "MOIETY_SIMGPU",
    "MOIETY_SIMGPU_STATE",
    "MOIETY_SYSTEM_DIR",
    "PYTHONPATH",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
)
"""Variables that the hook needs to find the same agent."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine in a container."""

    source: str
    inside: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Edits:
    """What a share adds to a container."""

    mounts: list[Mount]
    environment: dict[str, str]
    devices: list[str] = field(default_factory=list)
    beside: str = ""
    """A device of NVIDIA's own specification that brings the driver; empty: there is none."""


def check_name(name: str) -> str:
    """The name, if a share for containers may have it; raises BadArgument."""
    if not NAME.fullmatch(name):
        raise BadArgument(
            f"{name!r} cannot name a share for containers: at most 32 small letters, digits and "
            "any of . _ -, a letter first, a letter or digit last",
            "--name half, say",
        )
    return name


def default_dir() -> Path:
    """The folder where this user's runtimes look for specifications, or can be configured to."""
    if os.geteuid() == 0:
        return SYSTEM_DIR
    return user_folder("XDG_CONFIG_HOME") / "cdi"


def edits(folder: Path, shim: Path, driver: Path, *, alone: bool = False) -> Edits:
    """What adds the share whose files are in `folder` to a container.

    `alone`: the container asks for no other device, so that this one always brings the driver.
    """
    mounts = [
        Mount(str(shim), container_files.SHIM_INSIDE),
        Mount(str(folder / container_files.PRELOAD), container_files.PRELOAD_INSIDE),
        Mount(str(folder / container_files.SOCKETS), container_files.SOCKETS_INSIDE),
    ]
    environment = {"MOIETY_SOCKET": f"{container_files.SOCKETS_INSIDE}/shim.sock"}
    if is_simulated():
        stand_in = driver.parent
        environment["MOIETY_SIMGPU"] = os.environ["MOIETY_SIMGPU"]
        environment["MOIETY_SIMGPU_STATE"] = STATE_INSIDE
        # The shim looks for its kernels beside the stand-in driver.
        names = ("libcuda.so.1", "libnvidia-ml.so.1", "kernels.elf")
        mounts += _libraries(*(stand_in / name for name in names))
        mounts.append(Mount(str(simgpu_state_dir().absolute()), STATE_INSIDE, writable=True))
        return Edits(mounts, environment)
    if not alone and nvidia_specified():
        return Edits(mounts, environment, beside="nvidia.com/gpu=all")
    mounts += _libraries(*driver_files(driver))
    return Edits(mounts, environment, nvidia_nodes())


def _libraries(*files: Path) -> list[Mount]:
    return [
        Mount(str(file.resolve()), f"{inside}/{file.name}")
        for file in files
        for inside in LIBRARY_DIRS
    ]


def driver_files(driver: Path) -> list[Path]:
    """The libraries of NVIDIA's driver that programs need, by the names they are loaded by."""
    found = [path for name in DRIVER_LIBRARIES if (path := find_library(name))]
    version = driver.resolve().name.partition(".so.")[2]
    for name in UNVERSIONED:
        path = driver.resolve().parent / f"{name}.{version}"
        if path.is_file():
            found.append(path)
    return found


def nvidia_nodes(devices: Path = Path("/dev")) -> list[str]:
    """The device nodes through which the driver is called."""
    named = [devices / "nvidiactl", devices / "nvidia-uvm", devices / "nvidia-uvm-tools"]
    numbered = sorted(devices.glob("nvidia[0-9]*"), key=lambda node: (len(node.name), node.name))
    return [str(node) for node in [*named, *numbered] if node.exists()]


def nvidia_specified() -> bool:
    """Whether NVIDIA's own tools wrote a specification, which knows their driver best."""
    for folder in NVIDIA_SPECS:
        for file in Path(folder).glob("*.*"):
            try:
                if file.suffix in (".json", ".yaml") and "nvidia.com/gpu" in file.read_text():
                    return True
            except (OSError, UnicodeDecodeError):
                continue
    return False


def specification(name: str, found: Edits) -> dict[str, Any]:
    """The specification with the one device `name`, as its JSON."""
    contained: dict[str, Any] = {
        "env": [f"{key}={value}" for key, value in found.environment.items()],
        "mounts": [
            {
                "hostPath": mount.source,
                "containerPath": mount.inside,
                "options": ["rw" if mount.writable else "ro", "nosuid", "nodev", "bind"],
            }
            for mount in found.mounts
        ],
        "hooks": [hook(name)],
    }
    if found.devices:
        contained["deviceNodes"] = [{"path": node} for node in found.devices]
    return {
        "cdiVersion": VERSION,
        "kind": KIND,
        "devices": [{"name": name, "containerEdits": contained}],
    }


def hook(name: str) -> dict[str, Any]:
    """What the runtime runs on this machine before a container with the share starts.

    At `createRuntime` the container's files can be read where they lie here, and whatever the hook
    says on stderr is what the user sees when it fails.
    """
    return _hook("moiety", "container", "hook", name)


def image_hook() -> dict[str, Any]:
    """The same, of images alone: a share that was made a moment ago need not be asked for.

    Pods start several times as fast with it: it asks no agent, and imports nothing for that.
    """
    return _hook("moiety.cli.image_hook")


def _hook(module: str, *arguments: str) -> dict[str, Any]:
    known = {key: os.environ[key] for key in PASSED_ON if os.environ.get(key)}
    known.setdefault("PATH", os.defpath)
    return {
        "hookName": "createRuntime",
        "path": sys.executable,
        "args": [sys.executable, "-P", "-m", module, *arguments],
        "env": [f"{key}={value}" for key, value in known.items()],
    }


def by_device(name: str, found: Edits) -> str:
    """The options with which a runtime that reads specifications adds it."""
    options = ["--device", f"{KIND}={name}"]
    if found.beside:
        options = ["--device", found.beside, *options]
    return shlex.join(options)


def by_hand(found: Edits) -> str:
    """The options that do the same without a specification, less the hook."""
    options: list[str] = []
    if found.beside:
        options += ["--gpus", "all"]
    for node in found.devices:
        options += ["--device", node]
    for mount in found.mounts:
        options += ["-v", f"{mount.source}:{mount.inside}" + ":ro" * (not mount.writable)]
    for key, value in found.environment.items():
        options += ["-e", f"{key}={value}"]
    return shlex.join(options)
