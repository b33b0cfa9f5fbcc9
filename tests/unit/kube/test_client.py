"""The API client: what it tries again and what not, and a watch that misses nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from moiety.kube import access
from moiety.kube import client as client_module
from moiety.kube.changes import WatchEvent
from moiety.kube.client import CLAIMS, PODS, ApiClient, ApiError
from moiety.model.errors import ClusterRefusal
from moiety.testing.apiserver import ApiServer
from moiety.testing.kube_node import kubeconfig
from moiety.testing.waiting import Changes


def with_server(
    story: Callable[[ApiServer, ApiClient], Awaitable[None]], patience_s: float = 60.0
) -> None:
    async def tell() -> None:
        async with ApiServer() as server, ApiClient(server.access, patience_s=patience_s) as client:
            await story(server, client)

    asyncio.run(tell())


def test_objects_are_made_read_changed_and_removed() -> None:
    async def story(server: ApiServer, client: ApiClient) -> None:
        made = await client.create(PODS, {"metadata": {"name": "a"}}, "team")
        assert (made["kind"], made["metadata"]["namespace"]) == ("Pod", "team")
        read = await client.get(PODS, "a", "team")
        assert read == made
        read["spec"] = {"nodeName": "n"}
        changed = await client.update(PODS, read, "team")
        with pytest.raises(ApiError) as no:
            await client.update(PODS, read, "team")
        assert no.value.is_conflict
        with pytest.raises(ApiError) as there:
            await client.create(PODS, {"metadata": {"name": "a"}}, "team")
        assert there.value.is_conflict
        await client.patch(PODS, "a", {"metadata": {"annotations": {"x": "y"}}}, "team")
        body = {"metadata": {"name": "a"}, "spec": {"priority": 3}}
        await client.apply(PODS, body, "team", manager="test")
        found, version = await client.list(PODS, field_selector="spec.nodeName=n")
        assert int(version) > int(changed["metadata"]["resourceVersion"])
        assert found[0]["spec"] == {"nodeName": "n", "priority": 3}
        assert found[0]["metadata"]["annotations"] == {"x": "y"}
        await client.delete(PODS, "a", "team")
        await client.delete(PODS, "a", "team")
        with pytest.raises(ApiError) as gone:
            await client.get(PODS, "a", "team")
        assert gone.value.is_missing
        assert server.all(PODS) == []

    with_server(story)


def test_what_fails_for_a_moment_is_tried_again_and_a_write_only_if_nothing_was_done() -> None:
    async def story(server: ApiServer, client: ApiClient) -> None:
        server.put(PODS, {"metadata": {"name": "a"}}, "team")
        answers = [503, 500, 429, 0]
        server.fail = lambda *_: answers.pop(0)
        assert (await client.get(PODS, "a", "team"))["metadata"]["name"] == "a"
        answers[:] = [429, 503, 0]
        await client.create(PODS, {"metadata": {"name": "b"}}, "team")
        answers[:] = [500]
        with pytest.raises(ApiError) as no:
            await client.create(PODS, {"metadata": {"name": "c"}}, "team")
        assert (no.value.status, answers) == (500, [])
        answers[:] = [403]
        with pytest.raises(ApiError, match="GET /api/v1/namespaces/team/pods/a"):
            await client.get(PODS, "a", "team")

    with_server(story)


def test_a_server_that_stays_away_is_not_waited_for_longer_than_told() -> None:
    async def story(server: ApiServer, client: ApiClient) -> None:
        await server.stop()
        with pytest.raises(ApiError) as no:
            await client.get(PODS, "a", "team")
        assert no.value.is_away

    with_server(story, patience_s=0.2)


def test_a_watch_goes_on_over_outages_and_tells_what_went_meanwhile() -> None:
    async def story(server: ApiServer, client: ApiClient) -> None:
        server.put(CLAIMS, {"metadata": {"name": "a"}}, "team")
        seen: list[tuple[str, str]] = []
        changes = Changes()

        async def follow() -> None:
            nonlocal seen
            async for change in client.watch(CLAIMS):
                seen += [_told(change)]
                changes.tell()

        async def until(*wanted: tuple[str, str]) -> None:
            await changes.until(lambda: task.done() or set(wanted) <= set(seen))
            assert not task.done(), task.result()

        task = asyncio.create_task(follow())
        task.add_done_callback(lambda _: changes.tell())
        await until(("ADDED", "a"), ("SYNCED", ""))
        server.put(CLAIMS, {"metadata": {"name": "b"}}, "other")
        await until(("ADDED", "b"))
        await server.stop()
        server.put(CLAIMS, {"metadata": {"name": "c"}}, "team")
        await server.start()
        await until(("ADDED", "c"))
        assert seen.count(("ADDED", "a")) == 1
        server.remove(CLAIMS, "a", "team")
        server.forget()
        await until(("DELETED", "a"))
        server.put(CLAIMS, {"metadata": {"name": "d"}}, "team")
        await until(("ADDED", "d"))
        task.cancel()

    with_server(story)


def test_a_watch_that_is_forbidden_says_so() -> None:
    async def story(server: ApiServer, client: ApiClient) -> None:
        server.fail = lambda *_: 403
        with pytest.raises(ApiError) as no:
            async for _ in client.watch(PODS):
                pass
        assert no.value.status == 403

    with_server(story)


def test_watches_that_end_at_once_are_begun_ever_more_slowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    class Enough(Exception):
        pass

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            raise Enough

    async def story(_server: ApiServer, client: ApiClient) -> None:
        begun = 0
        no_changes: list[WatchEvent] = []

        async def ends(*_: object) -> AsyncIterator[WatchEvent]:
            nonlocal begun
            begun += 1
            assert begun <= 8, "without a pause"
            for change in no_changes:
                yield change

        monkeypatch.setattr(client, "_follow", ends)
        monkeypatch.setattr(asyncio, "sleep", pause)
        with pytest.raises(Enough):
            async for _ in client.watch(PODS):
                pass
        monkeypatch.undo()
        assert begun == 8
        assert pauses[-1] >= client_module.LONGEST_PAUSE_S / 2 > pauses[0]

    with_server(story)


def _told(change: WatchEvent) -> tuple[str, str]:
    return change.kind, (change.object.get("metadata") or {}).get("name", "")


def test_a_kubeconfig_says_where_the_server_is_and_a_wrong_one_what_is_wrong(
    tmp_path: Path,
) -> None:
    file = tmp_path / "config"
    file.write_text(json.dumps(kubeconfig("http://10.0.0.1:8080/")))
    found = access.find(str(file), {})
    assert (found.server, found.headers()) == (
        "http://10.0.0.1:8080",
        {"Authorization": "Bearer t"},
    )
    config = kubeconfig("http://10.0.0.1")
    file.write_text(json.dumps({**config, "current-context": "b"}))
    with pytest.raises(ClusterRefusal, match="there is no 'b' among its contexts"):
        access.find(str(file), {})
    with pytest.raises(ClusterRefusal, match="No such file"):
        access.find(str(tmp_path / "none"), {})


def test_a_pod_s_token_is_read_again_when_the_cluster_renewed_it(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    found = access.Access("https://10.0.0.1", token_file=token)
    assert found.headers() == {"Authorization": "Bearer one"}
    token.write_text("two\n")
    assert found.headers() == {"Authorization": "Bearer two"}
    token.unlink()
    with pytest.raises(ClusterRefusal, match="not readable"):
        found.headers()
