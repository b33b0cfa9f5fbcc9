"""What is exempt unless told otherwise. It stands alone: each command reads it as a default."""

from __future__ import annotations

from typing import Final

USUAL: Final = "command:nvidia-*,command:nv-*,command:dcgm*,command:Xorg,command:gnome-shell"
"""Processes of the driver and of the screen."""
