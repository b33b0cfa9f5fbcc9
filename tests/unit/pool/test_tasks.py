"""What each process of a workload learns: the variables of the usual frameworks."""

from __future__ import annotations

import json

import pytest

from moiety.model.errors import BadArgument
from moiety.pool.launch import tasks as module
from moiety.pool.launch.ports import PortBook
from moiety.pool.launch.tasks import command_of, rank_templates
from tests.support.pool_store import submission


def of(rank: int, **values: object) -> dict[str, str]:
    found = dict(each.split("=", 1) for each in rank_templates(submission(**values), 20000))
    return {name: value.replace("%r", str(rank)) for name, value in found.items()}


def test_a_rank_knows_its_place_in_the_words_of_each_framework() -> None:
    found = of(1, tasks=3)
    assert (found["RANK"], found["LOCAL_RANK"], found["WORLD_SIZE"]) == ("1", "1", "3")
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("127.0.0.1", "20000")
    assert found["OMPI_COMM_WORLD_RANK"] == found["HOROVOD_RANK"] == "1"
    assert found["OMPI_COMM_WORLD_SIZE"] == found["HOROVOD_SIZE"] == "3"
    assert json.loads(found["TF_CONFIG"]) == {
        "cluster": {"worker": ["127.0.0.1:20001", "127.0.0.1:20002", "127.0.0.1:20003"]},
        "task": {"type": "worker", "index": 1},
    }
    assert "CUDA_VISIBLE_DEVICES" not in found


def test_each_may_have_gpus_of_its_own() -> None:
    assert of(0, tasks=2, gpus=4, gpus_per_task=2)["CUDA_VISIBLE_DEVICES"] == "%[0,1;2,3]"
    with pytest.raises(BadArgument, match="3 processes with 1 GPUs each are not 2 GPUs"):
        submission(tasks=3, gpus=2, gpus_per_task=1).check()


def test_one_process_is_started_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "program", lambda name: f"/native/{name}")
    asked = submission(program="/bin/echo", argv=["echo", "a b"])
    assert command_of(asked, PortBook()) == ["/bin/echo", "a b"]
    words = command_of(submission(tasks=2, warn_first=True, argv=["true", "x"]), PortBook())
    assert words[:3] == ["/native/moiety-tasks", "2", "first"]
    assert words[words.index("--") :] == ["--", "/bin/true", "x"]
