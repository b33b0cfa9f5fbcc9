"""Checks the words of the repository:  python tools/wording.py

1. Every host that a file names must be listed here with a reason. A download address belongs in
   the configuration of the program that downloads.
2. A file contains no notes to its author.
3. The README, the pages in docs and the files below src and native contain none of the VAGUE words.
   Decisions are exempt: they are records.
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


VAGUE = ("whoever", "nobody", "somebody", "so many", "of those", "tell of", "tells of", "whom")
"""Words and phrases that plain English replaces by a standard noun; whole words, in any case."""
VAGUE_PATTERN = re.compile(
    r"(?<!\")\b(?:" + "|".join(VAGUE).replace(" ", r"\s+") + r")\b", re.IGNORECASE
)
"""A word behind a quotation mark is a name: "nobody" is an account."""


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
    return found + vague_complaints(file.relative_to(ROOT).as_posix(), text)


def _hosts(line: str) -> list[str]:
    return [match.group() for match in HOST.finditer(line.replace("://", " "))]


def vague_words(text: str) -> list[tuple[int, str]]:
    """Each vague word of a text, with the number of the line in which it begins."""
    return [
        (text.count("\n", 0, match.start()) + 1, " ".join(match.group().split()))
        for match in VAGUE_PATTERN.finditer(text)
    ]


def is_plain(name: str) -> bool:
    """Whether a file, by its path below the root, may contain no vague word."""
    path = Path(name)
    is_page = name == "README.md" or (path.parent == Path("docs") and path.suffix == ".md")
    return is_page or path.parts[0] in ("src", "native")


def vague_complaints(name: str, text: str) -> list[str]:
    """The lines of a file with a vague word, where it may contain none."""
    words = vague_words(text) if is_plain(name) else []
    return [f'{name}:{number}: "{word}": name the thing instead' for number, word in words]


def main() -> int:
    said = [line for file in files() for line in complaints(file)]
    print("\n".join(said))
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
