"""What a claim got: a share for each request, from what is consumed and what is said beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from moiety.agent.system.container_files import keeps_out, stranger
from moiety.kube.allocation_result import Unprepared, granted, whole_claims
from moiety.kube.client import Object
from moiety.model.share import Priority, Share

DRIVER = "gpu.moiety.dev"
CONFIG = {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig"}


def claim(*results: dict[str, Any], config: list[dict[str, Any]] | None = None) -> Object:
    found = [{"driver": DRIVER, "pool": "n", "device": "gpu-0", **result} for result in results]
    devices = {"results": found, "config": config or []}
    metadata = {"name": "c", "namespace": "team", "uid": "u"}
    return {"metadata": metadata, "status": {"allocation": {"devices": devices}}}


def result(request: str, compute: str, memory: str = "0", **more: Any) -> dict[str, Any]:
    return {
        "request": request,
        "consumedCapacity": {"compute": compute, "memory": memory},
        **more,
    }


def says(source: str, requests: list[str] | None = None, **parameters: Any) -> dict[str, Any]:
    opaque = {"driver": DRIVER, "parameters": {**CONFIG, **parameters}}
    return {"source": source, "requests": requests or [], "opaque": opaque}


def test_what_is_consumed_is_guaranteed() -> None:
    (found,) = granted(claim(result("gpu", "30", "16Mi")), "n")
    assert found.share == Share(gpu=0.3, memory_bytes=16 << 20)
    (nothing,) = granted(claim(result("gpu", "0")), "n")
    assert nothing.share == Share()
    (whole,) = granted(claim({"request": "gpu"}), "n")
    assert whole.share == Share(gpu=1.0)


def test_a_claims_parameters_count_for_more_than_a_class_and_only_for_their_requests() -> None:
    config = [
        says("FromClaim", ["big"], priority="high"),
        says("FromClass", priority="low"),
        {"source": "FromClaim", "opaque": {"driver": "another", "parameters": {}}},
    ]
    big, small = granted(
        claim(result("big/first", "50"), result("small", "20"), config=config), "n"
    )
    assert (big.request, big.share.priority) == ("big", Priority.HIGH)
    assert (small.request, small.share.priority) == ("small", Priority.LOW)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"metadata": {"name": "c"}, "status": {}}, "is not allocated"),
        (claim(result("gpu", "10", driver="another")), "no device of gpu.moiety.dev"),
        (claim(result("gpu", "10", pool="m")), "this is node n"),
        (claim(result("gpu", "10", adminAccess=True)), "admin access"),
        (
            claim(result("gpu", "10"), config=[says("FromClaim", gpu={"request": "0.2"})]),
            "consumes 10 % of one",
        ),
        (
            claim(result("gpu", "10"), config=[says("FromClaim", memory={"request": "1Gi"})]),
            "1 GiB that stay on the GPU",
        ),
        (claim(result("gpu", "10"), config=[says("FromClaim", color="red")]), "color"),
    ],
)
def test_a_claim_that_cannot_be_given_says_why(found: Object, words: str) -> None:
    with pytest.raises(Unprepared) as no:
        granted(found, "n")
    assert words in no.value.what


def test_containers_that_use_a_claim_as_a_whole_are_found() -> None:
    pod = {
        "spec": {
            "resourceClaims": [
                {"name": "a", "resourceClaimName": "c"},
                {"name": "b", "resourceClaimTemplateName": "t"},
            ],
            "containers": [
                {"name": "one", "resources": {"claims": [{"name": "a", "request": "big"}]}},
                {"name": "two", "resources": {"claims": [{"name": "a"}]}},
                {"name": "three", "resources": {"claims": [{"name": "b"}]}},
            ],
        },
        "status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made"}]},
    }
    assert whole_claims(pod, "c") == ["two"]
    assert whole_claims(pod, "made") == ["three"]


def test_a_process_of_another_pod_is_kept_out_by_its_control_group(tmp_path: Path) -> None:
    own, other = "09a47094-342c-4022-b129-40b75a21ead5", "19a47094-342c-4022-b129-40b75a21ead5"
    for pid, pod in (("1", own), ("2", other)):
        (tmp_path / pid).mkdir()
        path = f"0::/kubepods/besteffort/pod{pod}/{'a' * 64}\n"
        (tmp_path / pid / "cgroup").write_text(path)
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "cgroup").write_text("0::/user.slice\n")
    assert keeps_out([], 3, tmp_path) == ""
    assert keeps_out([other, own], 1, tmp_path) == ""
    assert other in keeps_out([own], 2, tmp_path)
    assert "no pod" in keeps_out([own], 3, tmp_path)
    assert "no pod" in keeps_out([own], 4, tmp_path)


def test_the_agents_own_socket_is_for_its_own_pod_and_the_machine(tmp_path: Path) -> None:
    own, other = "09a47094-342c-4022-b129-40b75a21ead5", "19a47094-342c-4022-b129-40b75a21ead5"

    def process(pid: int, pod: str, files: str) -> int:
        (tmp_path / str(pid) / "ns").mkdir(parents=True)
        (tmp_path / str(pid) / "ns" / "mnt").symlink_to(f"mnt:[{files}]")
        (tmp_path / str(pid) / "cgroup").write_text(f"0::/kubepods/pod{pod}/{'a' * 64}\n")
        return pid

    process(1, "", "machine")
    process(os.getpid(), own, "agent")
    assert stranger(process(10, own, "node"), tmp_path) == ""
    assert stranger(process(11, other, "pod"), tmp_path) == other
    assert stranger(process(12, other, "machine"), tmp_path) == ""  # a runtime's hook
    assert stranger(process(13, "", "shell"), tmp_path) == ""
    (tmp_path / "11" / "ns" / "mnt").unlink()
    assert stranger(11, tmp_path) == other


def test_a_pod_cannot_take_anothers_name_below_its_own_control_group(tmp_path: Path) -> None:
    own, other = "09a47094-342c-4022-b129-40b75a21ead5", "19a47094-342c-4022-b129-40b75a21ead5"
    (tmp_path / "1").mkdir()
    path = f"0::/kubepods/pod{own}/{'a' * 64}/kubepods/pod{other}/{'b' * 64}\n"
    (tmp_path / "1" / "cgroup").write_text(path)
    assert keeps_out([own], 1, tmp_path) == ""
    assert "another pod's" in keeps_out([other], 1, tmp_path)
