"""An agent in this process: from its command line to its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial

from moiety.agent.control.configuration import Read, configured
from moiety.agent.control.limits import LimitRules
from moiety.agent.control.options import Options
from moiety.agent.control.server import failed
from moiety.agent.service import Service, tell_ready
from moiety.agent.system.logs import open_log
from moiety.agent.system.paths import find, must_be_usable
from moiety.agent.system.stand_by import AFTER, stand_by
from moiety.devices.interface import Devices
from moiety.devices.nvml import Nvml, NvmlUnavailable
from moiety.model.errors import BadArgument, ConfigError, MoietyError, NoGpu


def main(arguments: Sequence[str], *, foreground: bool = False) -> int:
    """Run an agent in this process; returns its exit code.

    With --after-fd it begins once the agent before it has ended (stand_by.py).
    """
    after = int(arguments[3]) if arguments[2:3] == [AFTER] else None
    if after is not None:
        arguments = [*arguments[:2], *arguments[4:]]
    try:
        options, rules = configured(arguments)
    except (ValueError, ConfigError) as error:
        refusal = (
            error
            if isinstance(error, ConfigError)
            else BadArgument.of(error, "moiety agent start --help")
        )
        if len(arguments) > 1 and arguments[0] == "--ready-fd":
            tell_ready(int(arguments[1]), failed(refusal))
        raise refusal from None
    again = partial(configured, tuple(arguments))
    return serve(options, rules, again, foreground=foreground, after=after)


def serve(
    options: Options,
    rules: LimitRules,
    read: Read,
    *,
    foreground: bool,
    after: int | None = None,
) -> int:
    """Run an agent in this process; raises MoietyError if it cannot start.

    `after`: the descriptor for `stand_by`, if another agent has to end before this one begins.
    """
    service: Service | None = None
    devices: Devices | None = None
    try:
        # Files are for this user alone, even where others may go through the folder.
        os.umask(0o077)
        if after is not None:
            devices = _open_devices()
            if not stand_by(after):
                return 0
        directory = find("system" if options.system else "own")
        service = Service(directory, options, rules, read)
        devices = devices or _open_devices()
        with must_be_usable(directory):
            log = open_log(directory.log, also_stderr=foreground, form=options.log_format)
        asyncio.run(service.run(devices, log))
    except MoietyError as error:
        tell_ready(options.ready_fd, failed(error))
        raise
    finally:
        if service:
            service.release()
    return 0


def _open_devices() -> Devices:
    try:
        return Nvml()
    except NvmlUnavailable as error:
        raise NoGpu(problem=str(error)) from None
