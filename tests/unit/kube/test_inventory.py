"""GPUs as pods see them: which trouble keeps new ones away, and until when."""

from __future__ import annotations

import pytest

from moiety.agent.control.rows import GpuRow
from moiety.kube.inventory import Inventory


def row(errors: dict[int, float], *, used_bytes: int | None = 0, lost: str = "") -> GpuRow:
    return GpuRow(
        gpu=0,
        uuid="GPU-a",
        name="Paper GPU",
        total_bytes=100,
        used_bytes=used_bytes,
        capacity_bytes=90,
        resident_bytes=0,
        allocated_bytes=0,
        residue_bytes=0,
        free_bytes=90,
        utilisation=None,
        holders=[],
        waiting=[],
        lost=lost,
        errors=errors,
    )


@pytest.mark.parametrize(
    ("errors", "trouble"),
    [
        ({}, ""),
        ({48: 10.0}, "GPU 0 had a serious error (XID 48)"),
        ({48: 10.0, 95: 5.0, 13: 1.0}, "GPU 0 had a serious error (XID 95)"),
        ({48: 301.0}, ""),
        ({13: 1.0, 31: 1.0, 43: 1.0}, ""),
    ],
)
def test_a_gpu_counts_as_well_after_a_while_and_after_errors_of_programs(
    errors: dict[int, float], trouble: str
) -> None:
    inventory = Inventory({}, recovery_s=300.0)
    inventory.saw([row(errors)])
    (gpu,) = inventory.gpus.values()
    assert gpu.trouble == trouble


def test_who_asks_for_changes_is_told_when_a_gpu_falls_ill_and_recovers() -> None:
    inventory = Inventory({}, recovery_s=300.0)
    told: list[int] = []
    inventory.on_change.append(lambda: told.append(len(told)))
    changes = [inventory.saw([row(each)]) for each in ({}, {48: 1.0}, {48: 6.0}, {48: 300.0})]
    assert changes == [True, True, False, True]
    assert len(told) == 3


def test_a_gpu_that_is_gone_stays_in_trouble_however_old_its_error_is() -> None:
    inventory = Inventory({}, recovery_s=300.0)
    inventory.saw([row({79: 9000.0}, lost="GPU 0 has fallen off the bus (XID 79)")])
    assert [gpu.trouble for gpu in inventory.gpus.values()] == [
        "GPU 0 has fallen off the bus (XID 79)"
    ]
    inventory.saw([row({79: 9000.0}, used_bytes=None)])
    assert [gpu.trouble for gpu in inventory.gpus.values()] == ["NVML does not answer about GPU 0"]
