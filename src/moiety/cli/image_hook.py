"""The hook that a container runtime runs before a pod's container starts: it checks the image.

The runtime runs `python -m moiety.cli.image_hook` with the OCI state on stdin (createRuntime). Each
start of a container waits for it, so it imports only the modules that read images. The share itself
exists already: it was made when the pod's claim or units were given.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import IO, Any

from moiety.cli.image import USUAL_PATH, Image, check
from moiety.model import errors


def check_bundle(state: IO[str]) -> None:
    """Check that a container's program can be shared; raises ImageUnfit or BadArgument."""
    try:
        bundle = Path(json.load(state)["bundle"])
        config = json.loads((bundle / "config.json").read_text())
        root = bundle / config["root"]["path"]  # relative to the bundle, or absolute
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"no OCI state of a container on stdin: {error}"
        raise errors.BadArgument(
            problem, "a runtime's createRuntime hook, which writes it"
        ) from None
    try:
        check(Image(root), *_process(config))
    except errors.ImageUnfit as error:
        # The path is a folder of the runtime, which does not show users which image it is.
        shown = error.what.replace(str(root), "this image")
        raise errors.from_parts(type(error).__name__, shown, error.hint, error.exit_code) from None


def _process(config: dict[str, Any]) -> tuple[str | None, str, str]:
    """A container's program, its PATH and its working directory."""
    process = config.get("process") or {}
    arguments = process.get("args") or [None]
    variables = dict(each.partition("=")[::2] for each in process.get("env") or [])
    return arguments[0], variables.get("PATH") or USUAL_PATH, process.get("cwd") or "/"


def main() -> None:
    """Check the image, and exit with the error's code; the runtime shows stderr."""
    try:
        check_bundle(sys.stdin)
    except errors.MoietyError as error:
        if os.environ.get("MOIETY_DEBUG") == "1":
            raise
        print(error.render(), file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
