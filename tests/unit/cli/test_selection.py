"""Which rows a user, an order and a name mean."""

from __future__ import annotations

import pytest

from moiety.cli.selection import ORDERS, of_user, ordered, processes_of
from moiety.model.errors import NotAllowed, WorkloadAmbiguous, WorkloadUnknown
from tests.unit.top.test_rows import row

ROWS = [
    row(1, user="ann", uid=7, workload="a", resident_bytes=1),
    row(2, user="ann", uid=7, workload="a", program="loader"),
    row(3, user="bob", uid=8, workload="b", program="serve", gpu=None),
    row(4, user="eve", uid=9, workload="", program="", pid=0),
]


def test_a_user_is_meant_by_name_or_number() -> None:
    assert [r.tenant for r in of_user(ROWS, "ann")] == [1, 2]
    assert [r.tenant for r in of_user(ROWS, "8")] == [3]
    assert of_user(ROWS, "nobody") == []
    assert of_user(ROWS, None) == ROWS


def test_amounts_stand_with_the_largest_first() -> None:
    assert ordered(ROWS, "resident")[-1].tenant == 1
    assert [r.tenant for r in ordered(ROWS, "program")] == [4, 2, 3, 1]
    assert ordered(ROWS, None) == ROWS
    for order in ORDERS:
        assert len(ordered(ROWS, order)) == len(ROWS)


@pytest.mark.parametrize(
    ("target", "meant"), [("2", [2]), ("4703", [3]), ("a", [1, 2]), ("loader", [1, 2])]
)
def test_a_number_means_a_process_and_a_name_its_workload(target: str, meant: list[int]) -> None:
    assert [r.tenant for r in processes_of(ROWS, target)] == meant


def test_a_program_without_a_tenant_is_found_by_pid_name_and_workload() -> None:
    starting = row(0, pid=90, workload="c", program="slow.py", gpu=None)
    for target in ("90", "slow.py", "c"):
        assert processes_of([*ROWS, starting], target) == [starting]
    with pytest.raises(WorkloadUnknown):
        processes_of([*ROWS, starting], "0")
    with pytest.raises(WorkloadAmbiguous, match="3, 90"):
        processes_of([ROWS[2], row(0, pid=90, workload="c", program="serve")], "serve")


def test_what_means_nothing_or_too_much_is_refused() -> None:
    for target in ("", "99", "0", "nosuch", "9" * 5000):
        with pytest.raises(WorkloadUnknown):
            processes_of(ROWS, target)
    with pytest.raises(WorkloadAmbiguous, match="tenants 1, 5"):
        processes_of([*ROWS, row(5, workload="c")], "train")
    with pytest.raises(NotAllowed, match="of eve"):
        processes_of(ROWS, "4")
