"""What each version of the API calls things; it is quick to import."""

from __future__ import annotations

import re
from typing import Final

API_VERSION: Final = "v1"
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+-]{0,127}")
"""The names of workloads and of projects."""
RESTARTED: Final = "the machine was restarted while it ran"
"""Why work has failed whose machine went down."""
