"""Builds Kubernetes, containerd and kwok where the tests find them: a cache outside the checkout.

    python tests/kube/setup.py [--if-warm]      --if-warm: build nothing, say only what there is

From nothing it takes about ten minutes on two processors; what is there already is used. etcd, the
plugins for a pod's network and busybox come from Debian and are unpacked, not installed, so that no
service starts. Exit code 0 also where something cannot be had: then the tests say so and are
skipped.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.containers.setup import CannotBeHadError, apt, fetch, package
from tests.kube import product
from tests.support.native import cache_dir

HERE: Final = Path(__file__).resolve().parent
KUBERNETES: Final = "1.36.3"
CONTAINERD: Final = "2.4.2"
KWOK: Final = "0.8.0"
BUILD_S: Final = 3600
STAMP: Final = ",".join(
    f"k8s.io/component-base/version.{name}={value}"
    for name, value in (
        ("gitVersion", f"v{KUBERNETES}"),
        ("gitMajor", KUBERNETES.split(".")[0]),
        ("gitMinor", KUBERNETES.split(".")[1]),
    )
)
"""What the programs say they are: built from a module, they would not know."""
CONTROL_PLANE: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
)
CONTAINERD_PROGRAMS: Final = ("containerd", "containerd-shim-runc-v2", "ctr")
DEBIAN: Final = {
    "etcd-server": "usr/bin/etcd",
    "containernetworking-plugins": "usr/lib/cni/bridge",
    "busybox-static": "bin/busybox",
}
"""Packages, and a file of each."""
SYSTEM: Final = ("unshare", "nsenter", "setpriv", "openssl", "runc")
"""Programs of this machine. All but runc are on any Debian, and runc needs libraries of it."""
PLACES: Final = ("bin", "debian/usr/bin", "debian/bin")


def folder() -> Path:
    """Where these versions are, or would be."""
    return cache_dir() / f"kube-{KUBERNETES}-containerd-{CONTAINERD}-kwok-{KWOK}"


def program(name: str) -> Path | None:
    """A program: from KUBEBUILDER_ASSETS, if that has it, then from the cache."""
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        found = Path(assets) / name
        if found.exists():
            return found
    for place in PLACES:
        found = folder() / place / name
        if found.exists():
            return found
    return None


def missing() -> list[str]:
    """What the tests need and is not there."""
    wanted = [*CONTROL_PLANE, *CONTAINERD_PROGRAMS, "kwok"]
    lacking = [name for name in wanted if program(name) is None]
    # etcd may come from KUBEBUILDER_ASSETS; the others of Debian are files in the cache.
    for name, file in DEBIAN.items():
        if not (folder() / "debian" / file).exists() and program(Path(file).name) is None:
            lacking.append(name)
    return lacking + [name for name in SYSTEM if shutil.which(name) is None]


def cni_plugins() -> Path:
    """The folder with the plugins for a pod's network."""
    return folder() / "debian" / "usr" / "lib" / "cni"


def go(*arguments: str, cwd: Path, env: dict[str, str]) -> None:
    """Run Go.

    Raises:
        CannotBeHadError: there is none, or it failed; the message has its last lines.
    """
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if found is None:
        raise CannotBeHadError("Go is not here (1.26 or later, in PATH or /usr/local/go)")
    # What this machine's user set for Go's builds is not what is built here.
    fixed = {"GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(
        [found, *arguments],
        cwd=cwd,
        env={**os.environ, **fixed, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise CannotBeHadError("; ".join(said[-3:]) or f"go ended with {done.returncode}")


def build(names: tuple[str, ...], make: tuple[str, ...], cwd: Path, *, install: bool) -> None:
    """Build programs, all of these or none.

    `make` is what Go is asked for: with `install` modules and their versions, into GOBIN; else
    packages of the module in `cwd`.
    """
    target = folder() / "bin"
    if all((target / name).exists() for name in names):
        return
    print(f"setting up: {', '.join(names)}, by Go", flush=True)
    began_s = time.monotonic()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder(), prefix=".") as scratch:
        env = {"GOBIN": scratch} if install else {}
        out = [] if install else ["-o", scratch]
        go("install" if install else "build", "-p", "2", "-trimpath", *out, *make, cwd=cwd, env=env)
        for name in names:
            (Path(scratch) / name).rename(target / name)
    print(f"setting up: {time.monotonic() - began_s:.0f} s", flush=True)


def build_kubernetes() -> None:
    """The control plane, the kubelet and kubectl."""
    flags = "-s -w " + " ".join(f"-X {part}" for part in STAMP.split(","))
    packages = tuple(f"./cmd/{name}" for name in CONTROL_PLANE)
    build(CONTROL_PLANE, ("-ldflags", flags, *packages), HERE / "controlplane", install=False)


def build_containerd() -> None:
    """Containerd, its shim for runc, and its command."""
    module = "github.com/containerd/containerd/v2"
    stamp = f"-s -w -X {module}/version.Version=v{CONTAINERD}"
    tags = "no_btrfs no_zfs no_devmapper"
    commands = tuple(f"{module}/cmd/{name}@v{CONTAINERD}" for name in CONTAINERD_PROGRAMS)
    build(
        CONTAINERD_PROGRAMS,
        ("-tags", tags, "-ldflags", stamp, *commands),
        Path("/"),
        install=True,
    )


def build_kwok() -> None:
    """What plays nodes that are not there."""
    command = f"sigs.k8s.io/kwok/cmd/kwok@v{KWOK}"
    build(("kwok",), ("-ldflags", "-s -w", command), Path("/"), install=True)


def unpack(name: str) -> None:
    """A package of Debian, into the cache."""
    target = folder() / "debian"
    if (target / DEBIAN[name]).exists():
        return
    fetch(name)
    found = package(name)
    if found is None:
        raise CannotBeHadError(f"{name}: apt-get fetched it under another name")
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg-deb", "-x", str(found), str(target)], check=True)


def install_runc() -> None:
    """Install runc, where that may be done."""
    if shutil.which("runc"):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise CannotBeHadError("runc must be installed first: only root on Debian installs it")
    print("setting up: runc, by apt-get", flush=True)
    apt("install", "-y", "--no-install-recommends", "runc")


def set_up() -> None:
    """All that is not there yet; two runs at once do it once."""
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        builds = (build_kubernetes, build_containerd, build_kwok, install_runc)
        steps: list[Callable[[], None]] = [*builds, *(partial(unpack, name) for name in DEBIAN)]
        steps.append(product.fetch_wheels)
        for step in steps:
            try:
                step()
            except (CannotBeHadError, subprocess.SubprocessError) as error:
                print(f"setting up: {error}", flush=True)


def main(arguments: list[str]) -> int:
    """Build what is missing, and say what is there."""
    if arguments not in ([], ["--if-warm"]):
        print(__doc__, file=sys.stderr)
        return 2
    if not arguments:
        set_up()
    lacking = missing()
    if lacking and arguments:
        print(f"not built: {', '.join(lacking)} (make kube-bed builds them, ten minutes)")
        return 1
    if lacking:
        print(f"cannot be had here: {', '.join(lacking)}; the tests that need them are skipped")
    else:
        print(f"Kubernetes {KUBERNETES}, containerd {CONTAINERD}, kwok {KWOK} are in {folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
