"""A message, its handler and its event share one stem; so do requests, and instructions."""

from __future__ import annotations

import re
from unittest.mock import Mock

import pytest

from moiety.agent.control.commands import HANDLERS as OF_REQUESTS
from moiety.agent.control.protocol import AnyRequest
from moiety.agent.core import executor
from moiety.agent.shim.handlers import HANDLERS
from moiety.arbiter import instructions as do
from moiety.wire.codec import decode
from moiety.wire.layout import Type
from moiety.wire.message import Message
from moiety.wire.messages import IdleTimeoutMessage, QueueDepthMessage


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def test_the_handler_of_a_message_has_the_name_of_its_type() -> None:
    for kind, handler in HANDLERS.items():
        assert handler.__name__ == f"on_{Type(kind).name.lower()}"


def test_every_request_has_a_handler_with_the_name_of_its_tag() -> None:
    assert set(OF_REQUESTS) == set(AnyRequest.__args__)
    for request, handler in OF_REQUESTS.items():
        assert handler.__name__ == f"on_{request.__struct_config__.tag}"


def test_every_instruction_is_carried_out_by_a_method_of_its_name() -> None:
    recorded = {do.StateChanged: executor.Executor.state_changed}  # also of a process that is gone
    assert set(executor._CARRY) | set(recorded) == set(do.Instruction.__args__)
    for instruction, method in (executor._CARRY | recorded).items():
        assert method.__name__ == snake(instruction.__name__)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (do.SetIdleTimeout(1, 0.0025), IdleTimeoutMessage(idle_us=2500)),
        (do.SetIdleTimeout(1, 1e-7), IdleTimeoutMessage(idle_us=1)),  # 0 would end the watch
        (do.SetIdleTimeout(1, 0.0), IdleTimeoutMessage(idle_us=0)),
        (do.SetQueueDepth(1, 0.0025), QueueDepthMessage(queue_us=2500)),
    ],
)
def test_a_process_is_told_times_in_microseconds(
    wanted: do.SetIdleTimeout | do.SetQueueDepth, message: Message
) -> None:
    client = Mock()
    executor._CARRY[type(wanted)](Mock(), client, wanted)
    (sent,) = client.connection.send.call_args.args
    assert decode(sent) == message
