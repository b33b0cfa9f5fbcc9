"""The API server: reads, writes and watches objects, which are decoded JSON.

    async with Client(access.find()) as client:
        claim = await client.get(CLAIMS, "train", "team")
        async for event in client.watch(PODS, field_selector="spec.nodeName=a"):
            ...

Requests that fail for a moment (no connection, 429, 5xx) are tried again for `patience_s`. A write
that may have been done is not repeated: it is only written again after an answer that says that
nothing was done (429, 503 with a hint), or if no connection was made.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import aiohttp
import msgspec
from multidict import CIMultiDict

from moiety.kube.access import Access
from moiety.kube.changes import WatchEvent, key, news
from moiety.kube.sign_in import SignIn
from moiety.model.errors import ClusterRefusal
from moiety.version import __version__

Object = dict[str, Any]

PATIENCE_S: Final = 10.0
TIMEOUT_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
PAGE: Final = 500
WATCH_S: Final = 300
"""The server ends a watch after this time, and the client resumes it."""
BUSY: Final = 429
AGAIN: Final = frozenset({BUSY, 500, 502, 503, 504})
NOTHING_DONE: Final = frozenset({BUSY, 503})
FORBIDDEN: Final = 403
GONE: Final = 410
EXPIRED: Final = "Expired"


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object, as its addresses name it."""

    group: str
    """The API group; empty: the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str = "", namespace: str | None = None, sub: str = "") -> str:
        """The path of one object, or of the list of all."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, sub) if part]
        return "/".join(parts)


PODS: Final = Resource("", "v1", "pods", "Pod")
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)


class ApiError(ClusterRefusal):
    """The server refused, or did not answer (status 0)."""

    def __init__(self, status: int, reason: str, message: str, where: str) -> None:
        super().__init__(f"{where}: {message}" if message else f"{where}: {reason or status}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def is_missing(self) -> bool:
        """Whether the object does not exist."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Whether the object was changed meanwhile, or exists already."""
        return self.status == 409

    @property
    def is_forbidden(self) -> bool:
        """Whether this user may not do that."""
        return self.status == FORBIDDEN

    @property
    def is_away(self) -> bool:
        """Whether the server did not decide: it is unreachable, has too much to do, or failed."""
        return self.status in (0, BUSY) or self.status >= 500


class ApiClient:
    """Speaks to one API server; use it as a context manager."""

    def __init__(self, access: Access, *, patience_s: float = PATIENCE_S) -> None:
        self.access = access
        self.patience_s = patience_s
        self._session: aiohttp.ClientSession | None = None
        self._sign_in = SignIn(access)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=32),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            headers={"User-Agent": f"moiety/{__version__}", "Accept": "application/json"},
        )
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """One object; raises ApiError."""
        return await self._ask("GET", resource.path(name, namespace))

    async def list(
        self, resource: Resource, namespace: str | None = None, **selectors: str
    ) -> tuple[list[Object], str]:
        """All objects that are selected (`field_selector`, `label_selector`), and the version.

        A server's list omits the kind of its objects; these objects have it.
        """
        found: list[Object] = []
        query = _query(selectors) | {"limit": str(PAGE)}
        while True:
            page = await self._ask("GET", resource.path("", namespace), query=query)
            for each in page.get("items") or []:
                each.setdefault("apiVersion", resource.api_version)
                each.setdefault("kind", resource.kind)
                found.append(each)
            told = page.get("metadata") or {}
            if not told.get("continue"):
                return found, str(told.get("resourceVersion") or "")
            query = {**query, "continue": str(told["continue"])}

    async def create(
        self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None
    ) -> Object:
        """Create an object; raises ApiError (`is_conflict`: it exists already)."""
        return await self._ask("POST", resource.path("", namespace), body=_whole(resource, body))

    async def update(
        self, resource: Resource, body: Mapping[str, Any], namespace: str | None = None
    ) -> Object:
        """Replace an object; raises ApiError (`is_conflict`: it was changed meanwhile)."""
        path = resource.path(body["metadata"]["name"], namespace)
        return await self._ask("PUT", path, body=_whole(resource, body))

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        form: str = "merge-patch+json",
        sub: str = "",
    ) -> Object:
        """Change a part of an object; `form` is merge-patch+json, json-patch+json or the like."""
        path = resource.path(name, namespace, sub)
        return await self._ask("PATCH", path, body=body, form=form)

    async def apply(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        manager: str,
        force: bool = False,
        sub: str = "",
    ) -> Object:
        """Apply an object on the server (server-side apply); may be repeated."""
        path = resource.path(body["metadata"]["name"], namespace, sub)
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        text = _whole(resource, body)
        return await self._ask("PATCH", path, body=text, form="apply-patch+yaml", query=query)

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, uid: str = ""
    ) -> None:
        """Delete an object, with `uid` only if it has this UID; a missing one is no error."""
        body = {"preconditions": {"uid": uid}} if uid else None
        try:
            await self._ask("DELETE", resource.path(name, namespace), body=body)
        except ApiError as no:
            if not no.is_missing:
                raise

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        known: dict[str, Object] | None = None,
        **selectors: str,
    ) -> AsyncIterator[WatchEvent]:
        """Every present object, then all changes; goes on after outages, for ever.

        After an outage that is too long to resume, it yields all objects again as MODIFIED, and
        objects that were removed meanwhile as DELETED. Raises ApiError if the server forbids it.
        `known` has what was yielded, and is kept up to date: with it, the next watch goes on there.
        """
        known = {} if known is None else known
        version = ""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                if not version:
                    found, version = await self.list(resource, namespace, **selectors)
                    for change in news(known, found):
                        yield change
                async for change in self._follow(resource, namespace, selectors, version):
                    told = change.object.get("metadata") or {}
                    version = str(told.get("resourceVersion") or version)
                    pause_s = FIRST_PAUSE_S
                    if change.kind == "BOOKMARK":
                        continue
                    if change.kind == "DELETED":
                        known.pop(key(change.object), None)
                    else:
                        known[key(change.object)] = change.object
                    yield change
            except ApiError as no:
                if no.status == GONE or no.reason == EXPIRED:
                    version = ""
                elif not no.is_away:
                    raise
            # Also after a usual end: what is between may end each watch at once.
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _follow(
        self,
        resource: Resource,
        namespace: str | None,
        selectors: Mapping[str, str],
        version: str,
    ) -> AsyncIterator[WatchEvent]:
        query = _query(selectors) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_S),
        }
        path = resource.path("", namespace)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_S, sock_read=WATCH_S + 30)
        try:
            signed = await self._sign_in.headers()
            async with self._open("GET", path, signed, query=query, timeout=timeout) as response:
                if response.status >= 400:
                    self._sign_in.is_refused(response.status)
                    raise _error(response.status, await response.read(), f"watch {path}")
                async for line in _lines(response):
                    told = msgspec.json.decode(line)
                    body = told.get("object") or {}
                    if told["type"] == "ERROR":
                        code = int(body.get("code") or 0)
                        raise ApiError(
                            code, body.get("reason") or "", body.get("message") or "", path
                        )
                    yield WatchEvent(told["type"], body)
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
            raise ApiError(0, "", str(error) or type(error).__name__, f"watch {path}") from None

    def _open(self, method: str, path: str, signed: CIMultiDict[str], **how: Any) -> Any:
        assert self._session is not None, "a Client is used as a context manager"
        access = self.access
        return self._session.request(
            method,
            access.server + path,
            params=how.pop("query", None),
            headers=CIMultiDict([*signed.items(), *how.pop("headers", {}).items()]),
            ssl=self._sign_in.ssl or False,
            server_hostname=access.server_name,
            proxy=access.proxy,
            **how,
        )

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        form: str = "json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """Send one request, and try it again for `patience_s`; raises ApiError."""
        until_s = time.monotonic() + self.patience_s
        pause_s = FIRST_PAUSE_S
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": f"application/{form}"}
        is_new_credential = False
        while True:
            wait_s = pause_s * random.uniform(0.5, 1.5)
            signed = await self._sign_in.headers()
            try:
                opened = self._open(method, path, signed, query=query, headers=headers, data=data)
                async with opened as response:
                    read = await response.read()
                    if response.status < 400:
                        found: Object = msgspec.json.decode(read) if read else {}
                        return found
                    if self._sign_in.is_refused(response.status) and not is_new_credential:
                        is_new_credential = True
                        continue
                    no = _error(response.status, read, f"{method} {path}")
                    may_again = response.status in AGAIN and (
                        method == "GET" or response.status in NOTHING_DONE
                    )
                    with contextlib.suppress(ValueError):
                        wait_s = max(wait_s, float(response.headers.get("Retry-After", "0")))
            except aiohttp.ClientConnectorError as error:  # nothing was sent
                no = ApiError(0, "", str(error), f"{method} {path}")
                may_again = True
            except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
                problem = str(error) or type(error).__name__
                no = ApiError(0, "", problem, f"{method} {path}")
                may_again = method == "GET"
            if not may_again or time.monotonic() + wait_s > until_s:
                raise no
            await asyncio.sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _query(selectors: Mapping[str, str]) -> dict[str, str]:
    names = {"field_selector": "fieldSelector", "label_selector": "labelSelector"}
    return {names[name]: text for name, text in selectors.items() if text}


def _whole(resource: Resource, body: Mapping[str, Any]) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _error(status: int, read: bytes, where: str) -> ApiError:
    try:
        told = msgspec.json.decode(read)
        return ApiError(status, told.get("reason") or "", told.get("message") or "", where)
    except (msgspec.DecodeError, AttributeError):
        text = read[:200].decode(errors="replace").strip()
        return ApiError(status, "", text or f"status {status}", where)


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The lines of a body, however long: one object may be larger than a reader's buffer."""
    rest = b""
    async for piece in response.content.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
