"""Requests of a client whose kubeconfig signs in with a program, or acts as somebody else."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from moiety.kube import access
from moiety.kube.access import Impersonation
from moiety.kube.client import PODS, ApiClient, ApiError
from moiety.kube.sign_in import SignIn
from moiety.model.errors import ClusterRefusal
from moiety.testing.apiserver import ApiServer
from moiety.testing.kube_node import kubeconfig
from tests.support.certificates import Authority, server_with

V1 = "client.authentication.k8s.io/v1"


def program(folder: Path, **status: str) -> dict[str, Any]:
    """A sign-in program that prints the content of a file, and counts how often it ran."""
    says(folder, **status)
    file = folder / "sign-in"
    file.write_text(f"#!/bin/sh\necho x >> {folder}/runs\ncat {folder}/said\n")
    file.chmod(0o755)
    return {"exec": {"apiVersion": V1, "command": "./sign-in", "interactiveMode": "Never"}}


def says(folder: Path, **status: str) -> None:
    made = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
    (folder / "said").write_text(json.dumps(made))


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def found(folder: Path, server: str, user: dict[str, Any], **cluster: Any) -> access.Access:
    config = kubeconfig(server)
    config["users"][0]["user"] = user
    config["clusters"][0]["cluster"] |= cluster
    (folder / "config").write_text(json.dumps(config))
    return access.find(str(folder / "config"), {})


def with_server(story: Callable[[ApiServer], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with ApiServer() as server:
            server.put(PODS, {"metadata": {"name": "a"}}, "team")
            await story(server)

    asyncio.run(tell())


def test_the_program_s_token_is_shown_and_asked_for_again_when_it_is_refused(
    tmp_path: Path,
) -> None:
    async def story(server: ApiServer) -> None:
        good = "one"

        def answer(method: str, path: str) -> int:
            del method, path
            return 0 if ("authorization", f"Bearer {good}") in server.headers else 401

        server.fail = answer
        user = program(tmp_path, token="one")
        async with ApiClient(found(tmp_path, server.access.server, user)) as client:
            await client.get(PODS, "a", "team")
            await client.list(PODS, "team")
            assert runs(tmp_path) == 1
            good = "two"  # the cluster forgot the first
            says(tmp_path, token="two")
            await client.get(PODS, "a", "team")
            assert runs(tmp_path) == 2
            good = "three"
            with pytest.raises(ApiError) as no:
                await client.get(PODS, "a", "team")
            assert no.value.status == 401
            assert runs(tmp_path) == 3  # it is asked once more, and not for ever

    with_server(story)


def test_a_program_that_fails_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    async def story(server: ApiServer) -> None:
        user = program(tmp_path)
        async with ApiClient(found(tmp_path, server.access.server, user)) as client:
            with pytest.raises(ClusterRefusal, match="neither a token nor a certificate"):
                await client.get(PODS, "a", "team")
        assert server.asked == []

    with_server(story)


def test_a_token_in_the_kubeconfig_needs_no_program(tmp_path: Path) -> None:
    async def story(server: ApiServer) -> None:
        user = {**program(tmp_path, token="one"), "token": "own"}
        async with ApiClient(found(tmp_path, server.access.server, user)) as client:
            await client.get(PODS, "a", "team")
        assert ("authorization", "Bearer own") in server.headers
        assert not (tmp_path / "runs").exists()

    with_server(story)


def test_it_acts_as_another_user_of_several_groups() -> None:
    acting_as = Impersonation("jane", ("dev", "ops"), "7", {"team/role": ("a",)})

    async def story(server: ApiServer) -> None:
        own = dataclasses.replace(server.access, impersonation=acting_as.headers())
        async with ApiClient(own) as client:
            await client.get(PODS, "a", "team")
        said = [each for each in server.headers if each[0].startswith("impersonate-")]
        assert said == [
            ("impersonate-user", "jane"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-team%2frole", "a"),
        ]

    with_server(story)


# Certificates


def test_the_program_s_certificate_is_shown_and_the_next_one_after_it(tmp_path: Path) -> None:
    trusted = Authority()
    (tmp_path / "ca").write_text(trusted.pem)
    tls = server_with(*trusted.issued("api.test"), tmp_path)
    tls.load_verify_locations(cafile=tmp_path / "ca")
    tls.verify_mode = ssl.CERT_REQUIRED

    def certified(name: str) -> dict[str, str]:
        certificate, key = trusted.issued(name)
        return {"clientCertificateData": certificate, "clientKeyData": key}

    async def tell() -> None:
        async with ApiServer(tls) as server:
            server.put(PODS, {"metadata": {"name": "a"}}, "team")
            own = found(
                tmp_path,
                server.access.server,
                program(tmp_path, **certified("jane")),
                **{"certificate-authority": "ca", "tls-server-name": "api.test"},
            )
            async with ApiClient(own, patience_s=0.1) as client:
                await client.get(PODS, "a", "team")
                assert own.session is not None
                signed = SignIn(own)
                await signed.headers()
                before = signed.ssl
                await signed.headers()
                assert signed.ssl is before  # connections are kept
                own.session.refused(own.session.credential())
                says(tmp_path, **certified("joe"))
                await signed.headers()
                assert signed.ssl is not before
                await client.get(PODS, "a", "team")

    asyncio.run(tell())
