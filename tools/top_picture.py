"""Draws docs/top.svg: `moiety top` while the demo's three programs share a simulated GPU.

    python tools/top_picture.py [FILE]

The screen is the product's own, on an agent that runs; the picture names no host for its fonts.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]
from demo.run import SHARE, build, capacity_bytes  # noqa: E402  it needs the path
from moiety.agent.system.paths import Directory  # noqa: E402
from moiety.cli.living import end  # noqa: E402
from moiety.cli.status import agent_line  # noqa: E402
from moiety.testing.node import Node  # noqa: E402
from moiety.testing.waiting import until  # noqa: E402
from moiety.top.app import Top  # noqa: E402
from moiety.top.sample import look  # noqa: E402

SIMGPU = "A100-80:memory=640MiB,link=2GB/s"
NAMES = ("train", "serve", "notebook")
FONTS = re.compile(r"@font-face \{.*?\}|<!-- Generated.*?-->", re.DOTALL)


async def picture(directory: Directory) -> str:
    """The screen as SVG, after two looks, so that rates are there."""
    app = Top(lambda: look(directory), agent_line, end, interval_s=3600.0)
    async with app.run_test(size=(140, 12)) as pilot:
        await pilot.pause()
        await app.look_again()
        await pilot.pause()
        return app.export_screenshot(title="moiety top")


def turned(rows: list[dict[str, Any]]) -> bool:
    """Whether all three have had the GPU twice."""
    return len(rows) == len(NAMES) and all(row["handoffs"] > 1 for row in rows)


def main() -> int:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "top.svg"
    folder = Path(tempfile.mkdtemp(prefix="moiety-picture-"))
    try:
        kernels, commands = build(folder, simulated=True)
        with Node(folder, SIMGPU) as node:
            node.start_agent()
            each = int(capacity_bytes(node) * SHARE) // 8 * 8
            for i, (name, command) in enumerate(zip(NAMES, commands, strict=True)):
                words = [*command, str(kernels), str(each), "200", "400", "100", str(i)]
                node.run(words, "--name", name)
            until(lambda: turned(node.json("ps")), "three programs that took turns")
            drawn = asyncio.run(picture(Directory(node.directory)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    out.write_text(FONTS.sub("", drawn))
    return 0


if __name__ == "__main__":
    sys.exit(main())
