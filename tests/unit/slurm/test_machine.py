"""The machine as one node in one partition, for `sinfo` and `scontrol`."""

from __future__ import annotations

import pytest

from moiety.pool.model.states import WorkState
from moiety.slurm.show import machine, options, sinfo
from moiety.slurm.show.columns import lines
from moiety.slurm.show.jobs import SlurmJob
from moiety.slurm.show.machine import Machine
from tests.support.slurm_rows import job_of

STATUS = {"host": "gpu1", "cpus": 16, "memory_mib": 64000, "gpus": 4, "up_s": 5.0,
          "gpu_models": ["NVIDIA A100 (simgpu)"] * 4}  # fmt: skip


def node(*jobs: SlurmJob) -> Machine:
    return Machine(dict(STATUS), jobs)


def busy(*cards: int) -> SlurmJob:
    return job_of(state=WorkState.RUNNING, began_s=9_500.0, cards=list(cards), cpu_milli=2000)


def shown(found: Machine, *words: str) -> list[str]:
    given = options.read("sinfo", words, sinfo.OPTIONS)[0]
    return list(lines(sinfo.cells_of(given), [found], header=not given.has("noheader")))


def test_its_state_is_that_of_its_gpus() -> None:
    assert (node().state, node(busy(0)).state) == ("idle", "mixed")
    assert node(busy(0, 1), busy(2, 3)).short_state == "alloc"
    assert (node(busy(0), busy(0, 1)).used_gpus, node(busy(0), busy(1)).used_cpus) == (2, 4)


def test_sinfo_has_one_partition_and_one_node() -> None:
    assert shown(node()) == [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
        "pool*        up   infinite      1   idle gpu1",
    ]
    assert shown(node(), "-o", "%P") == ["PARTITION", "pool*"]
    assert shown(node(), "-h", "-o", "%G %C %m") == ["gpu:a100:4 0/16/0/16 64000"]
    assert shown(node(), "-h", "-N") == ["gpu1           1     pool* idle  "]
    assert shown(node(busy(1)), "-h", "-O", "GresUsed,StateLong:.8") == [
        "gpu:1".ljust(20) + "   mixed"
    ]


def test_every_column_has_a_value() -> None:
    for column in [*sinfo.LETTERS.values(), *sinfo.NAMES.values()]:
        assert isinstance(column.value(node(busy(0))), str), column.title


def test_scontrol_shows_the_keys_that_slurm_has() -> None:
    text = "\n".join(machine.node_lines(node(busy(0))))
    for part in ("NodeName=gpu1 ", "State=MIXED", "Gres=gpu:a100:4", "CPUTot=16",
                 "AllocTRES=cpu=2,mem=0M,gres/gpu=1"):  # fmt: skip
        assert part in text
    assert machine.partition_lines(node())[0] == "PartitionName=pool"
    config = "\n".join(machine.config_lines(node()))
    assert "MaxArraySize            = 1001" in config
    assert "MinJobAge               = " in config


def test_a_state_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert sinfo.main(["-t", "bogus"]) == 1
    assert capsys.readouterr().err.startswith('sinfo: error: Bad state string: "bogus"')
