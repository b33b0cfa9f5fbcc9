"""An agent on a machine whose directory of users does not answer.

`python -m tests.support.slow_names OPTIONS` is `python -m moiety.agent OPTIONS`. Whoever asks for
the name of a user or a group waits until the file that MOIETY_NAMES names is there.
"""

from __future__ import annotations

import grp
import os
import pwd
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from moiety.agent.process import main

VARIABLE: Final = "MOIETY_NAMES"


def late(asks: Callable[[Any], Any], answers: Path) -> Callable[[Any], Any]:
    """The same question, answered once the file is there."""

    def ask(whom: Any) -> Any:
        while not answers.exists():
            time.sleep(0.01)
        return asks(whom)

    return ask


if __name__ == "__main__":
    there = Path(os.environ[VARIABLE])
    for module, name in (
        (pwd, "getpwuid"),
        (pwd, "getpwnam"),
        (grp, "getgrgid"),
        (grp, "getgrnam"),
    ):
        setattr(module, name, late(getattr(module, name), there))
    sys.exit(main(sys.argv[1:]))
