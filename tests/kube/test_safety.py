"""What a pod may not: take what another has, by writing what only moiety writes."""

from __future__ import annotations

import json

import pytest

from tests.kube.sharing import Sharing, asking

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_stays")]
HALF = {"moiety.dev/gpu": "0.5"}
LARGE = json.dumps(
    {
        "main": {
            "apiVersion": "resource.moiety.dev/v1alpha1",
            "kind": "ShareConfig",
            "gpu": {"request": "1"},
        }
    }
)


@pytest.mark.parametrize(
    "forged", ["moiety.dev/asked", "moiety.dev/resized"], ids=["asked", "resized"]
)
@pytest.mark.parametrize("beside", [HALF, {}], ids=["beside a wish", "alone"])
def test_a_pod_cannot_write_what_only_moiety_writes(
    sharing: Sharing, namespace: str, forged: str, beside: dict[str, str]
) -> None:
    made = asking("forger", namespace, "true", annotations={**beside, forged: LARGE})
    assert "is written by moiety only" in sharing.refusal(made)
