"""Podman and runc, with nothing of this machine's configuration and all they keep in one folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from moiety.testing.node import Node
from moiety.testing.waiting import DEADLINE_S

# What podman asks for by itself is more than a machine in a machine may have.
SETTINGS: Final = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "none"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
"""


class Podman:
    """Podman, as root, with images and containers in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        settings = folder / "containers.conf"
        settings.write_text(SETTINGS)
        self.env = {**os.environ, "CONTAINERS_CONF": str(settings), "TMPDIR": str(folder)}
        places = (
            "--root",
            folder / "root",
            "--runroot",
            folder / "run",
            "--tmpdir",
            folder / "tmp",
        )
        self.command = ["podman", *map(str, places), "--storage-driver", "vfs"]

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command, to its end."""
        return subprocess.run(
            [*self.command, *arguments],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def must(self, *arguments: str) -> str:
        """One command that succeeds; what it printed."""
        done = self.call(*arguments)
        if done.returncode:
            raise AssertionError(f"podman {arguments} ended with {done.returncode}: {done.stderr}")
        return done.stdout.strip()

    def image(self, name: str, files: Path) -> str:
        """An image of these files."""
        archive = self.folder / f"{name}.tar"
        subprocess.run(["tar", "-C", str(files), "-cf", str(archive), "."], check=True)
        self.must("import", "--quiet", str(archive), f"moiety-test:{name}")
        archive.unlink()
        return f"moiety-test:{name}"

    def start(
        self, node: Node, options: Sequence[str], image: str, *command: str
    ) -> subprocess.Popen[str]:
        """A container in the foreground, its output piped."""
        full = [*self.command, "run", "--rm", *options, image, *command]
        return node.start(full, env=self.env)

    def close(self) -> None:
        """Leave no container, and nothing mounted."""
        self.call("rm", "--all", "--force", "--time", "0")


class Bundle:
    """A container of runc alone, in a folder of its own."""

    def __init__(self, folder: Path, rootfs: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)
        self.command = ["runc", "--root", str(folder / "state")]
        subprocess.run([*self.command, "spec", "--bundle", str(folder)], check=True)
        self.config = json.loads((folder / "config.json").read_text())
        shutil.copytree(rootfs, folder / "rootfs", symlinks=True)
        self.config["process"]["terminal"] = False
        self.config["process"]["rlimits"] = []
        self.config["root"]["readonly"] = False

    def apply(self, spec: Mapping[str, Any]) -> None:
        """What a CDI specification says, as any runtime that reads these does it."""
        (device,) = spec["devices"]
        edits = device["containerEdits"]
        self.config["process"]["env"] += edits["env"]
        for mount in edits["mounts"]:
            self.config["mounts"].append(
                {
                    "destination": mount["containerPath"],
                    "source": mount["hostPath"],
                    "type": "bind",
                    "options": mount["options"],
                }
            )
        hooks = self.config.setdefault("hooks", {})
        for hook in edits["hooks"]:
            parts = {key: hook[key] for key in ("path", "args", "env")}
            hooks.setdefault(hook["hookName"], []).append(parts)

    def in_user_namespace(self, first: int) -> None:
        """Its users are not those of the machine: root in it is `first` outside."""
        self.config["linux"]["namespaces"].append({"type": "user"})
        mapped = [{"containerID": 0, "hostID": first, "size": 65536}]
        self.config["linux"] |= {"uidMappings": mapped, "gidMappings": mapped}
        for path in [self.folder / "rootfs", *(self.folder / "rootfs").rglob("*")]:
            os.chown(path, first, first, follow_symlinks=False)

    def start(self, node: Node, *command: str) -> subprocess.Popen[str]:
        """Run a program in it, in the foreground."""
        self.config["process"]["args"] = list(command)
        (self.folder / "config.json").write_text(json.dumps(self.config))
        return node.start([*self.command, "run", "--bundle", str(self.folder), self.name])

    def signal(self, name: str) -> None:
        """Send its first process a signal."""
        subprocess.run([*self.command, "kill", self.name, name], check=True)

    def close(self) -> None:
        """End it, whatever it does."""
        subprocess.run(
            [*self.command, "delete", "--force", self.name], capture_output=True, check=False
        )
