"""`kubectl moiety` for a person who may edit one namespace, and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.bed import Bed
from tests.kube.programs import kubeconfig
from tests.kube.sharing import LONG, Sharing, asking, work

pytestmark = pytest.mark.usefixtures("nothing_stays")
MOIETY = (sys.executable, "-c", "from moiety.cli.kubectl import main; main()")
V1 = "client.authentication.k8s.io/v1"
Typed = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def editor(bed: Bed, namespace: str) -> Iterator[Typed]:
    """Runs `kubectl moiety` as a ServiceAccount with ClusterRole edit in one namespace.

    Its kubeconfig is in two files, and signs in with a program.
    """
    bed.kubectl("create", "serviceaccount", "editor", "-n", namespace)
    account = f"--serviceaccount={namespace}:editor"
    bed.kubectl("create", "rolebinding", "editor", "--clusterrole=edit", account, "-n", namespace)
    folder = bed.folder / f"editor-{namespace}"
    folder.mkdir()
    token = bed.kubectl("create", "token", "editor", "-n", namespace).strip()
    bed.env["EDITOR_KUBECONFIG"] = written(bed, folder, namespace, token)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        known = f"KUBECONFIG={bed.env['EDITOR_KUBECONFIG']}"
        return bed.call("env", known, *MOIETY, "--context", "as-editor", *arguments)

    def may() -> bool:
        who = f"--as=system:serviceaccount:{namespace}:editor"
        asked = ("auth", "can-i", "patch", "pods", "-n", namespace, who)
        return bed.call("kubectl", *asked).returncode == 0

    bed.until(may, "the editor may edit")
    yield run
    del bed.env["EDITOR_KUBECONFIG"]


def written(bed: Bed, folder: Path, namespace: str, token: str) -> str:
    """The files, as $KUBECONFIG lists them."""
    status = {"token": token, "expirationTimestamp": "2099-01-01T00:00:00Z"}
    (folder / "credential").write_text(
        json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})
    )
    program = folder / "sign-in"
    program.write_text('#!/bin/sh\ncat "$(dirname "$0")/credential"\n')
    program.chmod(0o755)
    signs = {"apiVersion": V1, "command": "./sign-in", "interactiveMode": "Never"}
    cluster = kubeconfig(bed.folder, "nobody")
    del cluster["users"]
    user: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": "editor", "user": {"exec": signs}}],
        "contexts": [
            {
                "name": "as-editor",
                "context": {"cluster": "bed", "user": "editor", "namespace": namespace},
            }
        ],
    }
    for name, content in (("cluster", cluster), ("user", user)):
        (folder / name).write_text(json.dumps(content))
    return f"{folder / 'cluster'}:{folder / 'none'}:{folder / 'user'}"


def test_an_editor_sees_the_pods_of_the_namespace_and_why_one_waits(
    bed: Bed, sharing: Sharing, namespace: str, editor: Typed
) -> None:
    bed.apply(
        asking("first", namespace, *work(8, LONG), annotations={"moiety.dev/gpu": "0.8"}),
        asking("next", namespace, *work(8, LONG), annotations={"moiety.dev/gpu": "0.5"}),
    )
    sharing.until_phase(namespace, "first", "Running")

    def waits() -> subprocess.CompletedProcess[str]:
        return editor("explain", "next")

    bed.until(lambda: "the scheduler says" in waits().stdout, "it says why it waits")
    said = waits()
    assert f"{namespace}/next waits for a GPU (main: 50 % of the GPU" in said.stdout
    assert "not yours to see" in said.stdout
    assert "you may not list ResourceSlices" in said.stderr
    runs = editor("explain", "first")
    assert f"{namespace}/first runs on" in runs.stdout
    assert "of gpu-0" in runs.stdout

    shown = editor("status")
    assert shown.returncode == 0, shown.stderr
    assert {line.split()[1] for line in shown.stdout.splitlines()[1:]} == {"first", "next"}
    assert f"only namespace {namespace} is shown" in shown.stderr
    assert "RECEIVED and ALLOCATED are not shown" in shown.stderr
    # An administrator who acts as the editor sees the same.
    who = f"system:serviceaccount:{namespace}:editor"
    acting = sharing.kubectl_moiety("status", "-n", namespace, "--as", who, "-o", "json")
    found = json.loads(acting.stdout)
    assert {row["name"] for row in found["pods"]} == {"first", "next"}
    assert found["gpus"] == []
    assert "gpus" in found["left_out"]


def test_what_an_editor_may_not_is_said_in_a_sentence(editor: Typed) -> None:
    for typed in (("status", "-n", "kube-system"), ("explain", "-n", "default", "x"),
                  ("uninstall", "--yes")):  # fmt: skip
        done = editor(*typed)
        assert done.returncode != 0
        assert "forbidden" in done.stderr
        assert "Traceback" not in done.stderr
