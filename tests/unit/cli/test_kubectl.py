"""`kubectl moiety status`, where agents answer and where they do not."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from moiety.cli.kubectl import kubectl
from moiety.kube.client import PODS
from moiety.testing.apiserver import ApiServer
from moiety.testing.kube_node import kubeconfig

FORBIDDEN = 'echo "Error from server (Forbidden): you may not exec" >&2; exit 1'


async def status(folder: Path, server: ApiServer, *options: str) -> Result:
    """What the command says."""
    config = folder / "kubeconfig"
    config.write_text(json.dumps(kubeconfig(server.access.server)))
    typed = ["--kubeconfig", str(config), "status", *options]
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    return await asyncio.to_thread(CliRunner().invoke, kubectl, typed, env=env)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo '[]'", ""),
        (FORBIDDEN, "Error from server (Forbidden): you may not exec"),
        ("exit 7", "kubectl exec ended with 7"),
        ("echo hello", "its answer is not JSON"),
    ],
    ids=["answers", "forbidden", "silent", "no JSON"],
)
def test_an_agent_that_does_not_answer_is_named_with_the_reason(
    tmp_path: Path, script: str, said: str
) -> None:
    fake = tmp_path / "kubectl"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    agent: dict[str, Any] = {
        "metadata": {"name": "moiety-node-x", "labels": {"app.kubernetes.io/name": "moiety-node"}},
        "spec": {"nodeName": "a"},
    }

    async def story() -> None:
        async with ApiServer() as server:
            server.put(PODS, agent, "moiety-system")
            shown = await status(tmp_path, server)
            sentence = f"RECEIVED and ALLOCATED on node a are not known: {said}\n"
            assert (shown.exit_code, shown.stderr) == (0, sentence if said else "")
            assert "no pod has a share" in shown.stdout
            plain = await status(tmp_path, server, "-o", "json")
            assert (plain.exit_code, plain.stderr) == (0, "")
            assert json.loads(plain.stdout)["silent"] == ({"a": said} if said else {})

    asyncio.run(story())
