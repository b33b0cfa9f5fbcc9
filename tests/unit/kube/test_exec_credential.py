"""The sign-in program of a kubeconfig, which is a small script here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from moiety.kube.exec_credential import Credential, ExecPlugin, ExecSession, read
from moiety.model.errors import ClusterRefusal

V1 = "client.authentication.k8s.io/v1"


def script(folder: Path, body: str) -> Path:
    file = folder / "sign-in"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return file


def printed(version: str = V1, **status: str) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def printing(folder: Path, text: str, **more: Any) -> ExecPlugin:
    (folder / "said").write_text(text)
    return ExecPlugin(str(script(folder, f"cat {folder}/said")), **more)


def test_a_token_and_its_end_are_read(tmp_path: Path) -> None:
    text = printed(token="t", expirationTimestamp="2030-01-01T00:00:00Z")
    assert printing(tmp_path, text).run() == Credential("t", expires_at=1893456000.0)
    assert "secret" not in repr(Credential("secret", "CERT", "secret"))


def test_a_certificate_is_read_with_its_key(tmp_path: Path) -> None:
    text = printed(clientCertificateData="CERT", clientKeyData="KEY")
    assert printing(tmp_path, text).run() == Credential("", "CERT", "KEY")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "printed no ExecCredential"),
        ("[]", "printed no ExecCredential"),
        (json.dumps({"apiVersion": V1, "kind": "ExecCredential"}), "it lacks 'status'"),
        (printed(), "neither a token nor a certificate"),
        (printed(clientKeyData="KEY"), "a key without one"),
        (printed(token="t", expirationTimestamp="soon"), "printed no ExecCredential"),
        (printed(f"{V1}beta1", token="t"), "v1beta1 ExecCredential, and not"),
    ],
)
def test_what_is_no_credential_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ClusterRefusal, match=r"sign-in program .*sign-in") as no:
        printing(tmp_path, text).run()
    assert said in no.value.what


def test_it_has_its_arguments_its_variables_and_what_it_is_asked(tmp_path: Path) -> None:
    file = script(
        tmp_path,
        f'echo "$1 $MINE" > {tmp_path}/got; echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n'
        f"cat > {tmp_path}/stdin\necho '{printed(token='t')}'",
    )
    cluster = {"server": "https://s", "config": {"audience": "a"}}
    said = {
        "apiVersion": V1, "command": str(file), "args": ["get-token"],
        "env": [{"name": "MINE", "value": "v"}], "interactiveMode": "Never",
        "provideClusterInfo": True,
    }  # fmt: skip
    assert read(said, cluster).run().token == "t"
    assert (tmp_path / "got").read_text() == "get-token v\n"
    assert (tmp_path / "stdin").read_text() == ""
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": cluster},
    }
    assert read({**said, "provideClusterInfo": False}, cluster).cluster is None


def test_a_program_that_fails_or_is_not_there_is_named_with_how_it_is_installed(
    tmp_path: Path,
) -> None:
    failing = ExecPlugin(str(script(tmp_path, "exit 3")), install_hint="apt install it")
    with pytest.raises(ClusterRefusal, match="ended with 3") as no:
        failing.run()
    assert no.value.hint == "apt install it"
    with pytest.raises(ClusterRefusal, match="cannot be run: No such file"):
        ExecPlugin(str(tmp_path / "none")).run()


def test_one_that_asks_is_not_run_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = printing(tmp_path, printed(token="t"), interactive_mode="Always")
    with (tmp_path / "said").open() as no_terminal:
        monkeypatch.setattr(sys, "stdin", no_terminal)
        with pytest.raises(ClusterRefusal, match="asks on a terminal, and there is none"):
            plugin.run()


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "speaks 'client"),
        ({}, "speaks ''"),
        ({"apiVersion": V1}, "interactiveMode of its sign-in program is ''"),
        ({"apiVersion": V1, "interactiveMode": "Perhaps"}, "none of Never, IfAvailable, Always"),
    ],
)
def test_a_program_of_another_version_is_not_run(said: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read({"command": "x", **said}, {})


def test_in_the_beta_version_it_asks_if_it_can() -> None:
    found = read({"command": "x", "apiVersion": f"{V1}beta1"}, {})
    assert found.interactive_mode == "IfAvailable"


def test_a_credential_is_kept_until_it_ends_or_is_refused(tmp_path: Path) -> None:
    now_s = 1893455000.0
    body = f"echo x >> {tmp_path}/runs; cat {tmp_path}/said"
    text = printed(token="t", expirationTimestamp="2030-01-01T00:00:00Z")
    (tmp_path / "said").write_text(text)
    session = ExecSession(ExecPlugin(str(script(tmp_path, body))), lambda: now_s)

    def runs() -> int:
        return len((tmp_path / "runs").read_text().splitlines())

    first = session.credential()
    assert session.credential() is first
    assert runs() == 1
    now_s = 1893456000.0 - 5  # it would end on its way
    second = session.credential()
    assert (runs(), second is first) == (2, False)
    now_s = 1893455000.0
    session.refused(first)  # an answer to an older request
    assert session.credential() is second
    session.refused(second)
    session.credential()
    assert runs() == 3
