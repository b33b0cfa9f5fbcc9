"""What is exempt from the watch unless told otherwise."""

from __future__ import annotations

import pytest

from moiety.config.table import SETTINGS
from moiety.enforcement.policy import Policy, Who
from moiety.enforcement.usual import USUAL


@pytest.mark.parametrize(
    ("command", "is_exempt"),
    [("nvidia-persistenced", True), ("dcgm-exporter", True), ("Xorg", True), ("python", False)],
)
def test_processes_of_the_driver_and_the_screen_are_exempt(command: str, is_exempt: bool) -> None:
    who = Who(pid=1, started=1, uid=0, user="root", command=command)
    assert bool(Policy().lets_off(who, 0)) is is_exempt


def test_the_setting_has_the_same_default() -> None:
    assert next(each for each in SETTINGS if each.name == "watch.exempt").default == USUAL
