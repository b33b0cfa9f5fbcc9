"""A stand-in for Kubernetes' API server: enough of HTTP for a client, in this process.

    async with ApiServer() as server:
        server.put(NODES, {"metadata": {"name": "a"}})
        async with Client(server.access) as client:
            ...

Objects are kept as they are sent, with UIDs, resource versions and conflicts. There is no
validation, no defaulting and no controller: tests of these need the real server.
"""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from moiety.kube.access import Access
from moiety.kube.client import Object, Resource
from moiety.testing.waiting import Changes

HISTORY: Final = 1000


class ApiServer:
    """Serves on a port of this machine while its block lasts."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.objects: dict[str, Object] = {}
        """Objects by path."""
        self.asked: list[tuple[str, str]] = []
        """Method and path of each request, in order."""
        self.headers: list[tuple[str, str]] = []
        """Names in small letters and values of the latest request's headers."""
        self.fail: Callable[[str, str], int] = lambda *_: 0
        """The error status of a method and path; 0: none."""
        self._version = 100
        self._history: list[tuple[int, str, str, Object]] = []
        self._forgotten = 0
        """A watch cannot resume from versions up to this one."""
        self.changes = Changes()
        self._server: asyncio.Server | None = None
        self._tls = tls
        self._port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def access(self) -> Access:
        """The access of a client to this server."""
        return Access(f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; on the same port as before after a `stop`, as after an outage."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, ssl=self._tls
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close all connections; the objects stay."""
        if self._server:
            self._server.close()
        for writer in list(self._writers):
            writer.close()
        self.changes.tell()
        self._server = None
        await asyncio.sleep(0)

    def put(self, resource: Resource, body: Object, namespace: str | None = None) -> Object:
        """Create or replace an object."""
        path = resource.path(body["metadata"]["name"], namespace)
        if namespace:
            body["metadata"]["namespace"] = namespace
        return self._write(path, body)

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """One object; None if it does not exist."""
        return self.objects.get(resource.path(name, namespace))

    def all(self, resource: Resource, namespace: str | None = None) -> list[Object]:
        """All objects of a resource, of one namespace if it is given."""
        return [each for _, each in self._below(resource.path("", namespace))]

    def remove(self, resource: Resource, name: str, namespace: str | None = None) -> None:
        """Remove an object."""
        self._drop(resource.path(name, namespace))

    def forget(self) -> None:
        """Forget the history: each client that watches has to list again."""
        self._forgotten = self._version
        self._history.clear()
        for writer in list(self._writers):
            writer.close()
        self.changes.tell()

    def _write(self, path: str, body: Object) -> Object:
        before = self.objects.get(path)
        found = copy.deepcopy(body)
        self._version += 1
        told = found.setdefault("metadata", {})
        told["uid"] = before["metadata"]["uid"] if before else told.get("uid", str(uuid.uuid4()))
        told["resourceVersion"] = str(self._version)
        self.objects[path] = found
        self._tell("MODIFIED" if before else "ADDED", path, found)
        return found

    def _drop(self, path: str) -> Object | None:
        found = self.objects.pop(path, None)
        if found is not None:
            self._version += 1
            found["metadata"]["resourceVersion"] = str(self._version)
            self._tell("DELETED", path, found)
        return found

    def _tell(self, kind: str, path: str, found: Object) -> None:
        self._history.append((self._version, kind, path, copy.deepcopy(found)))
        del self._history[:-HISTORY]
        self.changes.tell()

    def _below(self, path: str) -> list[tuple[str, Object]]:
        """The objects below a list's path; of all namespaces, if it names none."""
        head, _, plural = path.rpartition("/")
        found = []
        for key, each in sorted(self.objects.items()):
            parent = key.rpartition("/")[0]
            wide = parent.startswith(f"{head}/namespaces/") and parent.endswith(f"/{plural}")
            if parent == path or (wide and "/namespaces/" not in path):
                found.append((key, each))
        return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while line := await reader.readline():
                method, target, _ = line.decode().split()
                told = []
                while (header := (await reader.readline()).decode().strip()) != "":
                    name, _, value = header.partition(":")
                    told.append((name.lower(), value.strip()))
                self.headers, headers = told, dict(told)
                size = int(headers.get("content-length", 0))
                body = json.loads(await reader.readexactly(size)) if size else None
                if not await self._answer(method, target, headers, body, writer):
                    break
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: Any,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Answer one request; False if the connection ends with it."""
        url = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.asked.append((method, url.path))
        if status := self.fail(method, url.path):
            await _say(writer, status, _status(status, "as it was told to"))
            return True
        if query.get("watch") == "true":
            await self._watch(url.path, query, writer)
            return False
        status, found = self._do(method, url.path, query, headers, body)
        await _say(writer, status, found)
        return True

    def _do(
        self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: Any
    ) -> tuple[int, Object]:
        path = path.removesuffix("/status")
        existing = self.objects.get(path)
        if method == "GET":
            if existing is not None:
                return 200, existing
            is_list = path.rpartition("/")[2].islower() and self._is_list(path)
            if not is_list:
                return 404, _status(404, f"{path} not found", "NotFound")
            items = [each for _, each in self._below(path) if _selected(each, query)]
            return 200, {"metadata": {"resourceVersion": str(self._version)}, "items": items}
        if method == "POST":
            told = body["metadata"]
            if "generateName" in told and "name" not in told:
                told["name"] = told["generateName"] + uuid.uuid4().hex[:5]
            own = f"{path}/{told['name']}"
            if own in self.objects:
                return 409, _status(409, f"{own} already exists", "AlreadyExists")
            if "/namespaces/" in path:
                told["namespace"] = path.split("/namespaces/")[1].split("/", maxsplit=1)[0]
            return 201, self._write(own, body)
        if method == "PATCH" and "apply" in headers.get("content-type", ""):
            return 200, self._write(path, _merged(existing or {}, body))
        if existing is None:
            return 404, _status(404, f"{path} not found", "NotFound")
        if method == "PATCH":
            return 200, self._write(path, _merged(existing, body))
        if method == "DELETE":
            self._drop(path)
            return 200, _status(200, "")
        version = body["metadata"].get("resourceVersion")
        if version and version != existing["metadata"]["resourceVersion"]:
            return 409, _status(409, "the object has been modified", "Conflict")
        return 200, self._write(path, body)

    def _is_list(self, path: str) -> bool:
        """Whether a path names a list, and not one object."""
        parts = path.strip("/").split("/")
        rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            rest = rest[2:]
        return len(rest) == 1

    async def _watch(self, path: str, query: dict[str, str], writer: asyncio.StreamWriter) -> None:
        version = int(query.get("resourceVersion") or 0)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
        )
        if version < self._forgotten:
            gone = {"type": "ERROR", "object": _status(410, "too old", "Expired")}
            writer.write(json.dumps(gone).encode() + b"\n")
            await writer.drain()
            return
        mine = {path}
        while not writer.is_closing():
            for at, kind, key, found in list(self._history):
                parent = key.rpartition("/")[0]
                head, _, plural = path.rpartition("/")
                wide = parent.startswith(f"{head}/namespaces/") and parent.endswith(f"/{plural}")
                of_list = parent in mine or ("/namespaces/" not in path and wide)
                if at > version and of_list and _selected(found, query):
                    line = json.dumps({"type": kind, "object": found}).encode() + b"\n"
                    writer.write(line)
            version = self._version
            changed = self.changes.next()
            await writer.drain()
            await changed


def _selected(found: Object, query: dict[str, str]) -> bool:
    for part in (query.get("fieldSelector") or "").split(","):
        if not part:
            continue
        field, _, wanted = part.partition("=")
        value: Any = found
        for name in field.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if (value or "") != wanted.removeprefix("="):
            return False
    labels = found["metadata"].get("labels") or {}
    for part in (query.get("labelSelector") or "").split(","):
        name, _, wanted = part.partition("=")
        if part and labels.get(name) != wanted:
            return False
    return True


def _merged(base: Object, change: Object) -> Object:
    found = copy.deepcopy(base)
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = _merged(found[key], value)
        else:
            found[key] = value
    return found


def _status(code: int, message: str, reason: str = "") -> Object:
    return {"kind": "Status", "code": code, "message": message, "reason": reason}


async def _say(writer: asyncio.StreamWriter, status: int, found: Object) -> None:
    body = json.dumps(found).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    writer.write(head.encode() + b"\r\n\r\n" + body)
    await writer.drain()
