"""Which containers of a pod can ask for a share."""

from __future__ import annotations

from moiety.kube.model.pod_spec import containers


def test_init_containers_come_first_and_a_pod_may_have_none() -> None:
    spec = {"containers": [{"name": "main"}], "initContainers": [{"name": "before"}]}
    assert [each["name"] for each in containers({"spec": spec})] == ["before", "main"]
    assert list(containers({})) == []
    assert list(containers({"spec": {"initContainers": None}})) == []
