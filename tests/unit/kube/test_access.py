"""Which server, and who this is: from a kubeconfig, a pod, and options."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moiety.kube import access
from moiety.kube.access import Access, Impersonation
from moiety.model.errors import ClusterRefusal
from moiety.testing.kube_node import kubeconfig
from tests.support.certificates import Authority, connect, server_with, strict

V1 = "client.authentication.k8s.io/v1"
IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def found(folder: Path, user: dict[str, Any], **cluster: Any) -> Access:
    config = kubeconfig("http://10.0.0.1")
    config["users"][0]["user"] = user
    config["clusters"][0]["cluster"] |= cluster
    (folder / "config").write_text(json.dumps(config))
    return access.find(str(folder / "config"), {})


def test_a_user_with_a_password_says_it(tmp_path: Path) -> None:
    shown = found(tmp_path, {"username": "jane", "password": "p"}).headers()
    assert shown == {"Authorization": f"Basic {base64.b64encode(b'jane:p').decode()}"}


def test_a_kubeconfig_can_say_as_whom_it_acts_and_options_count_for_more(tmp_path: Path) -> None:
    user = {"token": "t", "as": "jane", "as-groups": ["dev"], "as-user-extra": {"k": ["v"]}}
    assert found(tmp_path, user).impersonation == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Extra-k", "v"),
    )
    typed = access.find(str(tmp_path / "config"), {}, acting_as=Impersonation("joe"))
    assert typed.impersonation == (("Impersonate-User", "joe"),)


def test_who_acts_as_another_does_so_in_a_pod_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "of_pod", lambda _: Access("https://10.0.0.1", None, "t"))
    there = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert access.find(None, there).impersonation == ()
    typed = access.find(None, there, acting_as=Impersonation("joe"))
    assert typed.impersonation == (("Impersonate-User", "joe"),)


def test_a_group_to_act_as_needs_a_user() -> None:
    with pytest.raises(ClusterRefusal, match="needs a user"):
        Impersonation(groups=("dev",)).headers()


def test_a_program_is_told_of_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(b"CA")
    program = {"apiVersion": V1, "command": "x", "interactiveMode": "Never"}
    config = {"name": access.EXTENSION, "extension": {"audience": "a"}}
    own = found(
        tmp_path,
        {"exec": {**program, "provideClusterInfo": True}},
        extensions=[config, {"name": "other", "extension": 1}],
        **{"certificate-authority": "ca"},
    )
    assert own.session is not None
    assert own.session.plugin.cluster == {
        "server": "http://10.0.0.1",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
        "config": {"audience": "a"},
    }


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"exec": {"command": "x"}}, "speaks ''"),
        ({"exec": {"apiVersion": V1, "interactiveMode": "Never"}}, "it lacks 'command'"),
        ({"exec": {"command": "x"}, "auth-provider": {"name": "oidc"}}, "both exec and"),
        ({"auth-provider": {"name": "oidc"}}, "has no id-token"),
        ({"exec": "aws"}, "kubeconfig"),
    ],
)
def test_a_user_that_cannot_sign_in_is_said_to(
    tmp_path: Path, user: dict[str, Any], said: str
) -> None:
    with pytest.raises(ClusterRefusal) as no:
        found(tmp_path, user)
    assert said in no.value.what


def test_an_id_token_is_a_token(tmp_path: Path) -> None:
    provider = {"name": "oidc", "config": {"id-token": "opaque"}}
    assert found(tmp_path, {"auth-provider": provider}).headers() == {
        "Authorization": "Bearer opaque"
    }


def test_several_files_are_one_and_a_context_can_be_named(tmp_path: Path) -> None:
    for name in ("one", "two"):
        config = kubeconfig(f"http://{name}")
        config["contexts"][0]["name"] = name
        config["current-context"] = name
        for group, kind in (("clusters", "cluster"), ("users", "user")):
            config[group][0]["name"] = name
            config["contexts"][0]["context"][kind] = name
        (tmp_path / name).write_text(json.dumps(config))
    listed = {"KUBECONFIG": f"{tmp_path / 'one'}:{tmp_path / 'two'}"}
    assert access.find(None, listed).server == "http://one"
    assert access.find(None, listed, context="two").server == "http://two"
    assert access.find(None, {**IN_POD, **listed}).server == "http://one"
    with pytest.raises(ClusterRefusal, match="there is no 'c' among its contexts"):
        access.find(None, listed, context="c")
    with pytest.raises(ClusterRefusal, match="no cluster is known"):
        access.find(None, {"KUBECONFIG": str(tmp_path / "none")})


def test_a_certificate_counts_only_where_there_is_tls() -> None:
    assert Access("http://10.0.0.1").with_certificate("", "") is None


def secure(folder: Path, **cluster: Any) -> Access:
    return found(folder, {"token": "t"}, server="https://10.0.0.1", **cluster)


def of_data(folder: Path) -> Access:
    data = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    return secure(folder, **{"certificate-authority-data": data})


def of_file(folder: Path) -> Access:
    return secure(folder, **{"certificate-authority": "ca.crt"})


def of_pod(folder: Path) -> Access:
    (folder / "namespace").write_text("team")
    return access.of_pod(IN_POD, folder)


@pytest.mark.parametrize("access_of", [of_data, of_file, of_pod])
def test_a_cluster_s_certificate_need_not_name_its_authority_s_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, access_of: Callable[[Path], Access]
) -> None:
    """Python 3.13 demands it by default; here its default is that of every version."""
    monkeypatch.setattr(access, "create_default_context", strict)
    authority = Authority(is_plain=True)
    (tmp_path / "ca.crt").write_text(authority.pem)
    server = server_with(*authority.issued("kubernetes"), tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="Missing Authority Key Identifier"):
        connect(strict(authority.pem), server, "kubernetes")
    known = access_of(tmp_path).ssl
    assert known is not None
    connect(known, server, "kubernetes")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        connect(known, server, "other")
    stranger = server_with(*Authority(is_plain=True).issued("kubernetes"), tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(known, stranger, "kubernetes")


def test_a_system_s_authorities_are_asked_for_no_more_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "create_default_context", strict)
    for each in (secure(tmp_path).ssl, Access("https://10.0.0.1").trust()):
        assert each is not None
        assert each.verify_mode == ssl.CERT_REQUIRED
        assert not each.verify_flags & ssl.VERIFY_X509_STRICT
