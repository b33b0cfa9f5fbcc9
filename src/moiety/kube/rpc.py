"""gRPC over unix sockets, by the services that the protocols describe.

A service is a class with a coroutine for each method, named in Python's style:
`NodePrepareResources` is `node_prepare_resources(request)`. A method that answers with a stream is
an asynchronous generator.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message_factory import GetMessageClass

_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
GRACE_S: Final = 2.0
OPTIONS: Final = (("grpc.so_reuseport", 0), ("grpc.enable_retries", 0))


def handlers(service: Any, implementation: object) -> Any:
    """The handlers of a server, from a service's descriptor and an object with its methods."""
    found = {}
    for method in service.methods:
        own = getattr(implementation, python_name(method.name))
        make = (
            grpc.unary_stream_rpc_method_handler
            if method.server_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        found[method.name] = make(
            _streamed(own) if method.server_streaming else _answered(own),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
    return grpc.method_handlers_generic_handler(service.full_name, found)


def _answered(own: Any) -> Any:
    async def answer(request: Any, context: Any) -> Any:
        try:
            return await own(request)
        except CallRefused as no:
            return await context.abort(no.code, str(no))

    return answer


def _streamed(own: Any) -> Any:
    async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for each in own(request):
                yield each
        except CallRefused as no:
            await context.abort(no.code, str(no))

    return answers


class CallRefused(Exception):
    """A method raises it to answer with an error; the text is for people."""

    def __init__(self, text: str, code: Any = None) -> None:
        super().__init__(text)
        self.code = grpc.StatusCode.FAILED_PRECONDITION if code is None else code


def python_name(method: str) -> str:
    """`NodePrepareResources` as Python writes it."""
    return _CAPITAL.sub("_", method).lower()


class Server:
    """Serves at one unix socket, from `start` to `stop`."""

    def __init__(self, path: Path, *services: tuple[Any, object]) -> None:
        """Each service is a descriptor and the object that implements it."""
        self.path = path
        self._services = services
        self._server = grpc.aio.server(options=OPTIONS)
        for service, implementation in services:
            self._server.add_generic_rpc_handlers((handlers(service, implementation),))
        self._inode = 0

    async def start(self) -> None:
        """Listen; replaces the socket of a killed process. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        before = os.umask(0o177)  # only root may connect: the kubelet is root, like this process
        try:
            self._server.add_insecure_port(f"unix:{self.path}")
            await self._server.start()
        except RuntimeError as error:  # what gRPC makes of an error of the system
            raise OSError(str(error)) from None
        finally:
            os.umask(before)
        self._inode = self.path.stat().st_ino

    @property
    def is_there(self) -> bool:
        """Whether the socket still exists: a kubelet empties its folder."""
        try:
            return self.path.stat().st_ino == self._inode
        except OSError:
            return False

    def again(self) -> Server:
        """A new server for the same services at the same path."""
        return Server(self.path, *self._services)

    async def stop(self) -> None:
        """Answer open requests, and stop; removes the socket if it is this server's."""
        ours = self.is_there
        await self._server.stop(GRACE_S)
        if ours:
            self.path.unlink(missing_ok=True)


@contextlib.asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Any]:
    """A channel to the server at a socket."""
    channel = grpc.aio.insecure_channel(f"unix:{path}", options=OPTIONS)
    try:
        yield channel
    finally:
        await channel.close()


async def call(channel: Any, service: Any, method: str, request: Any, timeout_s: float) -> Any:
    """Send one request and return its answer; raises grpc.aio.AioRpcError."""
    found = service.methods_by_name[method]
    ask = channel.unary_unary(
        f"/{service.full_name}/{method}",
        request_serializer=GetMessageClass(found.input_type).SerializeToString,
        response_deserializer=GetMessageClass(found.output_type).FromString,
    )
    return await ask(request, timeout=timeout_s)


def listen(channel: Any, service: Any, method: str, request: Any) -> Any:
    """Send one request and return the stream of its answers."""
    found = service.methods_by_name[method]
    ask = channel.unary_stream(
        f"/{service.full_name}/{method}",
        request_serializer=GetMessageClass(found.input_type).SerializeToString,
        response_deserializer=GetMessageClass(found.output_type).FromString,
    )
    return ask(request)
