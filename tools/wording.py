"""Checks that the repository speaks of the product, and of nothing around it.

Every host that a file names must be known here with a reason: a download address belongs into the
configuration of whoever downloads. Notes to oneself do not belong into a file at all.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOST = re.compile(
    r"(?<![\w./@-])(?:[a-z0-9-]+\.)+(?:ai|com|dev|io|net|org)(?![\w(.-])", re.IGNORECASE
)
OTHERS = ROOT / "src" / "moiety" / "kube" / "protocol"
"""Kubernetes' definitions, and what is made of them: nothing in there is ours to word"""
NOTE = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
ALLOWED = {
    "www.apache.org": "the licence's own text",
    "www.w3.org": "the name space of every SVG",
    "keepachangelog.com": "the form of the change log",
    "semver.org": "the meaning of the version numbers",
    "moiety.dev": "the vendor part of our device's name in CDI",
    "gpu.moiety.dev": "our DRA driver and its device class",
    "resource.moiety.dev": "the group of our parameters of claims",
    "k8s.io": "the package of Kubernetes' protocols",
    "kubernetes.io": "the prefix of Kubernetes' own names",
    "events.k8s.io": "the group of events in Kubernetes",
    "resource.k8s.io": "the group of claims and slices in Kubernetes",
    "resource.kubernetes.io": "the prefix of standard attributes of devices",
    "kubelet.config.k8s.io": "the group of the kubelet's settings",
    "kubescheduler.config.k8s.io": "the group of the scheduler's settings",
    "kwok.x-k8s.io": "the prefix of kwok's own names",
    "github.com": "a part of the names of Go's modules",
    "sigs.k8s.io": "a part of the names of Go's modules",
    "nvidia.com": "the prefix of NVIDIA's resources in Kubernetes",
    "nvshare.com": "the prefix of nvshare's resources in Kubernetes",
    "docker.io": "the registry that is meant where an image names none",
    "cnvrg.io": "the prefix of MetaGPU's resources in Kubernetes",
    "gpu.nvidia.com": "the name of NVIDIA's driver in Kubernetes",
    "app.kubernetes.io": "the prefix of labels that say what belongs together",
    "kubectl.kubernetes.io": "the prefix of what kubectl heeds",
}

GO = (".go", ".mod", ".sum")
"""Files that consist of names of Go's modules, which look like hosts."""

NAMES_OF_OBJECTS = (".k8s.io", ".kubernetes.io", ".moiety.dev")
"""in Kubernetes, what looks like a host names an API or the system that something belongs to"""


def files() -> list[Path]:
    """What is, or will be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = [ROOT / name for name in sorted(set(listed.stdout.split("\0"))) if name]
    return [file for file in found if OTHERS not in file.parents]


def complaints(file: Path) -> list[str]:
    """Lines of one file that say something they should not."""
    try:
        text = file.read_text()
    except (UnicodeDecodeError, FileNotFoundError):
        return []
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{file.relative_to(ROOT)}:{number}"
        found += [
            f"{where}: names the host {host}"
            for host in _hosts(line)
            if host.lower() not in ALLOWED
            and not host.lower().endswith(NAMES_OF_OBJECTS)
            and file.name != Path(__file__).name
            and file.suffix not in GO
        ]
        if NOTE.search(line):
            found.append(f"{where}: a note to oneself")
    return found


def _hosts(line: str) -> list[str]:
    return [match.group() for match in HOST.finditer(line.replace("://", " "))]


def main() -> int:
    said = [line for file in files() for line in complaints(file)]
    print("\n".join(said))
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
