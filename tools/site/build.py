"""Makes the site: build.py OUTPUT [SOURCE].

The pages of docs/ are copied and completed first: what is generated from the code replaces the line
`<!-- generated: NAME -->`, pages that no list in index.md names are added where it says
`<!-- other pages -->`, and links to files beside docs/ become their names. Then Sphinx makes HTML
of it; whatever it warns of is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.site import reference

from moiety.version import __version__

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
GENERATED: Final = re.compile(r"^<!-- generated: (\S+) -->$", re.MULTILINE)
OTHER_PAGES: Final = "<!-- other pages -->"
TOCTREE: Final = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTSIDE: Final = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?!\w+\.md)([^)#]*)(?:#[^)]*)?\)")
"""A link from docs/ or docs/decisions/ to something that is no page."""


def complete(text: str) -> str:
    """A page with what is generated in it."""
    text = GENERATED.sub(lambda match: reference.PARTS[match[1]](), text)
    return OUTSIDE.sub(_named, text)


def _named(link: re.Match[str]) -> str:
    """A file's link as its name, unless the page calls it so already."""
    path = link[2].rstrip("/")
    return link[1] if Path(path).name in link[1] else f"{link[1]} (`{path}`)"


def listed(index: str, pages: Iterable[str]) -> set[str]:
    """The pages that the lists of index.md name, patterns included."""
    found = set()
    for block in TOCTREE.findall(index):
        for line in block.splitlines():
            entry = line.strip()
            if entry and not entry.startswith(":"):
                pattern = re.escape(entry).replace(r"\*", "[^/]*")
                found |= {page for page in pages if re.fullmatch(pattern, page)}
    return found


def copy(into: Path) -> None:
    """The pages, completed, with all that lies beside them."""
    if into.exists():
        shutil.rmtree(into)
    shutil.copytree(DOCS, into)
    pages = {str(page.relative_to(into).with_suffix("")) for page in into.rglob("*.md")}
    for name in pages:
        page = into / f"{name}.md"
        page.write_text(complete(page.read_text()))
    index = into / "index.md"
    text = index.read_text()
    others = sorted(pages - listed(text, pages) - {"index"})
    index.write_text(text.replace(OTHER_PAGES, "\n".join(others)))


def main() -> int:
    """Make it; returns Sphinx's exit code."""
    output = Path(sys.argv[1])
    source = Path(sys.argv[2]) if len(sys.argv) > 2 else output / "source"
    copy(source)
    config = Path(__file__).resolve().parent
    command = ["-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-c", str(config)]
    done = subprocess.run(
        [sys.executable, *command, str(source), str(output / "html")],
        env={**os.environ, "MOIETY_DOCS_VERSION": __version__},
        check=False,
    )
    if done.returncode == 0:
        print(output / "html" / "index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
