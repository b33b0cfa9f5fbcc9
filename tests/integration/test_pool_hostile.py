"""Bodies, texts and numbers that no client of ours sends: each is refused, or kept as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import msgspec
import pytest

from moiety.pool.model.names import NAME
from moiety.pool.model.records import WorkRow
from tests.support.served_pool import ASKED, ask, served_with_work

UID = 4321


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served_with_work(tmp_path_factory.mktemp("pool"), UID) as found:
        yield found


DEEP = b"[" * 200_000
TEXTS = {
    "a megabyte": "x" * (1 << 20),
    "surrogate": "a\ud800b",
    "nul": "a\0b",
    "line break": "a\nb",
    "escape": "\x1b[2J",
    "above": "../../etc",
    "right to left": "\u202ea",
}
NUMBERS = (-1, 0, 1 << 31, 1 << 63, 1 << 64, -(1 << 63), 10**30, 1e308, -1e308, 0.5)


@pytest.mark.parametrize(
    "body", [b"", b"\0", b"\xff\xfe", b"null", b"[]", b"{", DEEP, b'"' + b"x" * 100]
)
def test_a_body_that_makes_no_sense_is_refused(address: str, body: bytes) -> None:
    for method, path in (("POST", "/v1/workloads"), ("PUT", "/v1/projects")):
        status, said = ask(address, method, path, body, uid=0)
        assert status == 400, said
        assert json.loads(said)["kind"] == "BadArgument"


def test_a_body_that_is_too_large_is_refused(address: str) -> None:
    status, said = ask(address, "POST", "/v1/workloads", b" " * (5 << 20))
    assert (status, "more than 4 MiB" in json.loads(said)["what"]) == (400, True)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hostile_texts_are_refused_or_kept_as_they_are(address: str, text: str) -> None:
    fields = ("name", "project", "program", "cwd", "stdout", "stdin", "script", "gpu_model")
    more = ("array", "depends", "open_mode")
    for field in (*fields, *more):
        body = json.dumps(ASKED | {field: text}).encode()
        status, said = ask(address, "POST", "/v1/workloads", body, UID)
        assert status in (201, 400, 403, 404), (field, said)
    for at in ({"environment": {text: text}}, {"labels": {text: text}}, {"argv": [text]}):
        status, said = ask(address, "POST", "/v1/workloads", json.dumps(ASKED | at).encode(), UID)
        assert status in (201, 400), (at, said)
    for act in ("", "/cancel", "/wait"):
        path = f"/v1/workloads/{quote(text[:5000], safe='', errors='surrogatepass')}{act}"
        status, said = ask(address, "POST" if act == "/cancel" else "GET", path, uid=UID)
        assert status in (400, 404, 405), said
    body = json.dumps({"projects": [{"name": text, "users": [text], "parent": text}]}).encode()
    assert ask(address, "PUT", "/v1/projects", body, uid=0)[0] == 400


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_without_sense_are_refused(address: str, number: float) -> None:
    fields = (
        "gpus", "gpu", "memory_bytes", "memory_limit_bytes", "cpus", "host_memory_bytes",
        "priority", "time_limit_s", "grace_s", "umask", "begin_s", "tasks", "retries",
        "warn_signal", "warn_s",
    )  # fmt: skip
    for field in fields:
        body = json.dumps(ASKED | {field: number}).encode()
        status, said = ask(address, "POST", "/v1/workloads", body, UID)
        assert status in (201, 400, 403), (field, said)
    for field in ("quota", "limit", "weight", "priority"):
        body = json.dumps({"projects": [{"name": "p", field: number}]}).encode()
        assert ask(address, "PUT", "/v1/projects", body, uid=0)[0] in (200, 400), field
    for query in ("after", "limit"):
        status, said = ask(address, "GET", f"/v1/workloads?{query}={number}", uid=UID)
        assert status in (200, 400), said


def test_what_is_kept_can_be_listed(address: str) -> None:
    """After all of that: pages of rows, and each row by its number."""
    after = 0
    while True:
        status, said = ask(address, "GET", f"/v1/workloads?after={after}&limit=1000", uid=0)
        assert status == 200
        page = json.loads(said)
        for row in page["rows"]:
            assert NAME.fullmatch(msgspec.convert(row, WorkRow).name)
        if page["after"] is None:
            break
        after = page["after"]
