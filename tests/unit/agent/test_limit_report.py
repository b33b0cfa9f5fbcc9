"""What users may have, as the server of a pool asks for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control.card_loads import CardLoad
from moiety.agent.control.limit_report import guarantees_of, limits_of
from moiety.agent.control.limits import LimitEnforcer, LimitRules
from moiety.agent.control.rows import UserLimitRow
from moiety.config.files import read
from moiety.config.load import load
from moiety.config.places import Kind
from moiety.config.values import Visible
from moiety.model.errors import UserLimit
from moiety.model.share import Share

ALICE, BOB = 7001, 7002
RULES = f"""\
[users.{ALICE}]
gpu = 0.5
memory = "10%"
workloads = 3
gpus = "0,2"

[users.{BOB}]
guaranteed = "30%"
"""


def workload(name: str, uid: int, gpu: float) -> Any:
    record = SimpleNamespace(id=name, uid=uid, promised=Share(gpu=gpu))
    return SimpleNamespace(record=record, account=uid, owner=f"user {uid}")


def enforcer(folder: Path, *found: Any) -> LimitEnforcer:
    path = folder / "config.toml"
    path.write_text(RULES)
    file = read(path, Kind.SYSTEM)
    assert file
    known: Any = SimpleNamespace(by_id={w.record.id: w for w in found}, on_owner=[])
    runtime: Any = SimpleNamespace(feed=lambda _: None)
    return LimitEnforcer(runtime, {}, known, LimitRules(load({}, files=[file])))


def asked(limits: LimitEnforcer | None, asker: int, visible: Visible) -> dict[int, UserLimitRow]:
    return asyncio.run(limits_of(limits, [ALICE, BOB], asker, visible))


def test_the_limits_of_users_are_told_with_the_place_of_each_rule(tmp_path: Path) -> None:
    limits = enforcer(tmp_path, workload("one", ALICE, 0.4), workload("other", BOB, 0.1))
    row = asked(limits, 0, Visible.ALL)[ALICE]
    assert (row.gpu, row.memory_part, row.workloads, row.gpus) == (0.5, 0.1, 3, [0, 2])
    assert (row.priority, row.memory_bytes, row.has) == (None, None, ["one"])
    assert row.where["gpu"].startswith(f"{tmp_path}/config.toml:2")


def test_a_user_sees_its_own_alone(tmp_path: Path) -> None:
    limits = enforcer(tmp_path)
    assert set(asked(limits, BOB, Visible.SIZES)) == {BOB}
    assert asked(None, 0, Visible.ALL) == {}


def test_guarantees_are_told_to_whom_sees_anything(tmp_path: Path) -> None:
    limits = enforcer(tmp_path)
    assert guarantees_of(limits, Visible.SIZES) == {f"user {BOB}": 0.3}
    assert guarantees_of(limits, Visible.NOTHING) == guarantees_of(None, Visible.ALL) == {}


@pytest.mark.parametrize(("each", "refused"), [(True, True), (False, False)])
def test_a_part_of_each_gpu_is_counted_where_it_is(
    tmp_path: Path, *, each: bool, refused: bool
) -> None:
    own = workload("one", ALICE, 0.4)
    limits = enforcer(tmp_path, own)
    full, empty = CardLoad(on={id(own): own}), CardLoad()
    limits.check(ALICE, Share(gpu=0.3), on=[empty])
    with pytest.raises(UserLimit, match="40 % of it are guaranteed already"):
        limits.check(ALICE, Share(gpu=0.3), on=[full])
    if refused:
        with pytest.raises(UserLimit):
            limits.check(ALICE, Share(gpu=0.3), on=[full, empty], each=each)
    else:
        limits.check(ALICE, Share(gpu=0.3), on=[full, empty], each=each)
