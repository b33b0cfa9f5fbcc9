"""What a runtime runs before a pod's container starts: can its image be shared at all?

`python -m moiety.cli.image_hook`, with the OCI state on stdin (createRuntime). Each start of a
container waits for it, so it imports what looks at images and no more; that the share is there
has been seen to already, when the pod's claim or units were given.
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
    """Whether what a container starts can be shared; raises ImageUnfit, BadArgument."""
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
        # The folder is one of the runtime's, which tells nobody which image that was.
        shown = error.what.replace(str(root), "this image")
        raise errors.from_parts(type(error).__name__, shown, error.hint, error.exit_code) from None


def _process(config: dict[str, Any]) -> tuple[str | None, str, str]:
    """What a container starts, its PATH and its working directory."""
    process = config.get("process") or {}
    arguments = process.get("args") or [None]
    variables = dict(each.partition("=")[::2] for each in process.get("env") or [])
    return arguments[0], variables.get("PATH") or USUAL_PATH, process.get("cwd") or "/"


def main() -> None:
    """Look, and exit with the error's code; what is on stderr, the runtime shows."""
    try:
        check_bundle(sys.stdin)
    except errors.MoietyError as error:
        if os.environ.get("MOIETY_DEBUG") == "1":
            raise
        print(error.render(), file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
