"""What every test shares: an environment that nothing of the developer's leaks into."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# One profile everywhere: a shared machine is slow at times, and a failure must be found again.
settings.register_profile(
    "moiety", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("soak", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("MOIETY_TEST_PROFILE", "moiety"))

KEPT = {"MOIETY_KUBE_BED", "MOIETY_NATIVE", "MOIETY_TEST_PROFILE", "MOIETY_TEST_CUDA"}


@pytest.fixture(autouse=True, scope="session")
def _clean_environment() -> None:
    """Settings of whoever runs the tests would change what moiety does."""
    for name in [n for n in os.environ if n.startswith("MOIETY_") and n not in KEPT]:
        del os.environ[name]
    os.environ.pop("LD_PRELOAD", None)
    os.environ["MOIETY_CONFIG"] = ""  # and so would the files of this machine


QUARANTINE = Path(__file__).with_name("quarantine.toml")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--quarantined` turns the selection round."""
    parser.addoption(
        "--quarantined",
        action="store_true",
        help="Run the tests that tests/quarantine.toml leaves out, and only those.",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests in quarantine: their result depends on time, so they are no gate."""
    tables = tomllib.loads(QUARANTINE.read_text())
    listed = {each["name"] for each in tables.get("quarantined", [])}
    wanted = bool(config.getoption("--quarantined"))

    def runs(item: pytest.Item) -> bool:
        return (item.nodeid.partition("[")[0] in listed) == wanted

    left_out = [each for each in items if not runs(each)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [each for each in items if runs(each)]
