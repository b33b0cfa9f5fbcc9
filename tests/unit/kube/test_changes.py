"""What a new list says of objects that changed while nothing was heard."""

from __future__ import annotations

from typing import Any

from moiety.kube.changes import news


def pod(name: str, uid: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "team", "name": name, "uid": uid}}


def test_an_object_with_the_name_of_a_removed_one_is_another() -> None:
    known: dict[str, dict[str, Any]] = {}
    first = list(news(known, [pod("web-0", "1"), pod("web-1", "2"), pod("web-2", "3")]))
    assert [each.kind for each in first] == ["ADDED", "ADDED", "ADDED", "SYNCED"]
    found = [
        (each.kind, (each.object.get("metadata") or {}).get("uid"))
        for each in news(known, [pod("web-0", "1"), pod("web-1", "4")])
    ]
    assert found == [
        ("DELETED", "2"),
        ("DELETED", "3"),
        ("MODIFIED", "1"),
        ("ADDED", "4"),
        ("SYNCED", None),
    ]
    assert known == {"team/web-0": pod("web-0", "1"), "team/web-1": pod("web-1", "4")}
