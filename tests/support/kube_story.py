"""Tells a story on a node of Kubernetes with an agent, `moiety kube node` and stand-ins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from moiety.testing.kube_node import KubeNode

ONE_GPU: Final = "A100-80:memory=256MiB"
TWO_GPUS: Final = "2xA100-80:memory=256MiB"


def on_node(
    folder: Path,
    native: Path,
    mode: str,
    story: Callable[[KubeNode], Awaitable[None]],
    *,
    gpus: str = ONE_GPU,
) -> None:
    """Run `story` with a started node; `mode` is what `moiety kube node --mode` takes."""

    async def tell() -> None:
        async with KubeNode(folder, gpus, native=native) as node:
            await node.start("--mode", mode)
            await story(node)

    asyncio.run(tell())
