"""`kubectl moiety status`, where agents answer and where they do not."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from moiety.cli.kubectl import kubectl
from moiety.kube.client import NODES, PODS
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


def story_with(server_story: Callable[[ApiServer], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with ApiServer() as server:
            await server_story(server)

    asyncio.run(tell())


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_options_may_stand_before_and_after_the_command_and_go_to_kubectl_too(
    tmp_path: Path, is_after: bool
) -> None:
    fake = tmp_path / "kubectl"
    fake.write_text(f"#!/bin/sh\necho \"$@\" > {tmp_path}/typed\necho '[]'\n")
    fake.chmod(0o755)
    agent = {
        "metadata": {"name": "moiety-node-x", "labels": {"app.kubernetes.io/name": "moiety-node"}},
        "spec": {"nodeName": "a"},
    }
    options = ["--context", "a", "--as", "jane", "--as-group", "dev", "--as-group", "ops"]

    async def story(server: ApiServer) -> None:
        server.put(PODS, agent, "moiety-system")
        config = tmp_path / "config"
        config.write_text(json.dumps(kubeconfig(server.access.server)))
        where = ["--kubeconfig", str(config), *options]
        typed = ["status", *where] if is_after else [*where, "status"]
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        shown = await asyncio.to_thread(CliRunner().invoke, kubectl, typed, env=env)
        assert (shown.exit_code, shown.stderr) == (0, "")
        said = [each for each in server.headers if each[0].startswith("impersonate")]
        assert said == [
            ("impersonate-user", "jane"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
        ]
        words = (tmp_path / "typed").read_text()
        assert words.startswith(f"--kubeconfig {config} --context a --as jane --as-group dev")

    story_with(story)


def test_an_editor_is_shown_the_pods_of_the_namespace_and_what_is_left_out(
    tmp_path: Path,
) -> None:
    limits = {"moiety.dev/gpu": "1"}
    pod = {
        "metadata": {"name": "mine"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }

    async def story(server: ApiServer) -> None:
        server.put(PODS, pod, "default")
        server.fail = lambda _, path: 0 if "/namespaces/default/" in path else 403
        shown = await status(tmp_path, server)
        assert shown.exit_code == 0
        assert "mine" in shown.stdout
        assert "no node offers GPUs" not in shown.stdout
        assert "only namespace default is shown" in shown.stderr
        assert "GPUs are not shown: you may not list ResourceSlices" in shown.stderr
        assert "RECEIVED and ALLOCATED are not shown" in shown.stderr
        plain = json.loads((await status(tmp_path, server, "-o", "json")).stdout)
        assert set(plain["left_out"]) == {"pods", "gpus", "received"}
        nothing = await status(tmp_path, server, "-n", "other")
        assert nothing.exit_code != 0

    story_with(story)


def test_in_a_cluster_without_slices_the_units_of_nodes_are_shown(tmp_path: Path) -> None:
    async def story(server: ApiServer) -> None:
        assert "no node offers GPUs" in (await status(tmp_path, server)).stdout
        offered = {"allocatable": {"moiety.dev/gpu-percent": "200", "cpu": "8"}}
        server.put(NODES, {"metadata": {"name": "a"}, "status": offered})
        limits = {"moiety.dev/gpu-percent": "50"}
        main = {"name": "main", "resources": {"limits": limits}}
        server.put(
            PODS,
            {
                "metadata": {"name": "p"},
                "spec": {"nodeName": "a", "containers": [main]},
                "status": {"phase": "Running"},
            },
            "default",
        )
        shown = (await status(tmp_path, server)).stdout.splitlines()
        assert shown[0].split() == ["NODE", "RESOURCE", "UNITS", "USED"]
        assert shown[1].split() == ["a", "moiety.dev/gpu-percent", "200", "50"]
        plain = json.loads((await status(tmp_path, server, "-o", "json")).stdout)
        expected = {"node": "a", "resource": "moiety.dev/gpu-percent", "offered": 200, "used": 50}
        assert plain["units"] == [expected]

    story_with(story)
