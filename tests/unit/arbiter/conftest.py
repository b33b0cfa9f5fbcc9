from __future__ import annotations

import pytest

from moiety.arbiter.settings import GpuSpec, Settings
from tests.support.simulated_node import SimulatedNode

# A failed assertion of these says the values, as one of a test does.
pytest.register_assert_rewrite("tests.support.arbiter_invariants", "tests.support.arbiter_rules")


@pytest.fixture
def node() -> SimulatedNode:
    """Two GPUs with 100 bytes for data and 20 for contexts each."""
    gpus = [GpuSpec(gpu, total_bytes=120, capacity_bytes=100) for gpu in range(2)]
    return SimulatedNode(gpus, Settings(arena_bytes=1000))
