"""`python -m moiety.agent`: an agent in this process, without the command line around it."""

from __future__ import annotations

import sys

from moiety.agent.process import main
from moiety.model.errors import MoietyError

try:
    sys.exit(main(sys.argv[1:]))
except MoietyError as error:
    print(error.render(), file=sys.stderr)
    sys.exit(error.exit_code)
