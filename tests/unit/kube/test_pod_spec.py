"""Which containers of a pod can ask for a share."""

from __future__ import annotations

from moiety.kube.model.pod_spec import at_once, containers


def test_init_containers_come_first_and_a_pod_may_have_none() -> None:
    spec = {"containers": [{"name": "main"}], "initContainers": [{"name": "before"}]}
    assert [each["name"] for each in containers({"spec": spec})] == ["before", "main"]
    assert list(containers({})) == []
    assert list(containers({"spec": {"initContainers": None}})) == []


def test_amounts_count_as_containers_have_them_at_one_time() -> None:
    def has(amount: int, *, stays: bool = False) -> dict[str, object]:
        return {"amount": amount, "restartPolicy": "Always" if stays else None}

    def most(init: list[dict[str, object]], *after: dict[str, object]) -> dict[str, int]:
        spec = {"initContainers": init, "containers": list(after)}
        return at_once({"spec": spec}, lambda each: {"x": each["amount"]})

    assert most([], has(20), has(30)) == {"x": 50}
    assert most([has(40)], has(20), has(30)) == {"x": 50}
    assert most([has(40), has(80)], has(20), has(30)) == {"x": 80}
    assert most([has(10, stays=True), has(80)], has(20)) == {"x": 90}
    assert most([has(80), has(10, stays=True)], has(20)) == {"x": 80}
    assert most([has(10, stays=True), has(15)], has(20)) == {"x": 30}
    assert at_once({}, dict) == {}
