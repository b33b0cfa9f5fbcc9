from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from moiety.kube.oidc import id_token
from moiety.model.errors import ClusterRefusal

NOW_S = 1_800_000_000.0


def token(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


def provider(text: str, name: str = "oidc") -> dict[str, Any]:
    return {"name": name, "config": {"id-token": text, "refresh-token": "r"}}


@pytest.mark.parametrize("text", [token(exp=NOW_S + 60), token(sub="x"), "opaque", "a.!.c"])
def test_a_token_that_has_not_ended_is_used(text: str) -> None:
    assert id_token(provider(text), NOW_S) == text


@pytest.mark.parametrize("exp", [NOW_S - 1, NOW_S + 5, 0])
def test_one_that_has_ended_names_the_program_that_renews_it(exp: float) -> None:
    with pytest.raises(ClusterRefusal, match=r"expired at .* UTC") as no:
        id_token(provider(token(exp=exp)), NOW_S)
    assert "kubelogin" in no.value.hint


def test_without_a_token_or_with_another_provider_it_says_what_does_it() -> None:
    with pytest.raises(ClusterRefusal, match="has no id-token"):
        id_token(provider(""), NOW_S)
    with pytest.raises(ClusterRefusal, match="auth-provider gcp, which is not supported") as no:
        id_token(provider("t", "gcp"), NOW_S)
    assert "exec" in no.value.hint
