"""A server that cannot listen says so as other files do that cannot be made."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moiety.kube.rpc import Server


def test_a_socket_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    async def story() -> None:
        server = Server(tmp_path / ("x" * 120) / "dra.sock")  # longer than a socket's path may be
        with pytest.raises(OSError, match=r"dra\.sock"):
            await server.start()
        assert not server.is_there

    asyncio.run(asyncio.wait_for(story(), 20))
