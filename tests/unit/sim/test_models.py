"""GPUs of several models on one node are refused, with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.model.errors import TraceInvalid
from moiety.sim.reading import Complaints
from moiety.sim.tables import open_trace, read

SEVERAL = "its GPUs are of several models, A100 and T4"
INSTEAD = "a node for each model, with its part of the CPUs and the memory"


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        (
            "nodes.csv",
            "name,cpu_milli,memory_mib,gpus,model\nm,8,8,2,T4\nn,8,8,4,T4|A100\n",
        ),
        (
            "nodes.jsonl",
            '{"name": "m", "cpu_milli": 8, "memory_mib": 8, "gpus": 2}\n'
            '{"name": "n", "cpu_milli": 8, "memory_mib": 8, "gpus": 4, "model": ["T4", "A100"]}\n',
        ),
    ],
)
def test_in_our_own_format(tmp_path: Path, name: str, nodes: str) -> None:
    (tmp_path / name).write_text(nodes)
    (tmp_path / "jobs.csv").write_text("name,gpus\nj,1\n")
    with pytest.raises(TraceInvalid) as refused:
        read(tmp_path, Complaints())
    line = 3 if name == "nodes.csv" else 2
    assert f"{name}, line {line}: {SEVERAL}" in refused.value.what
    assert INSTEAD in refused.value.what


def test_in_alibabas_format(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn,8,8,4,T4|A100\n")
    (tmp_path / "pods_x.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nj,1,1,1,9\n")
    with pytest.raises(TraceInvalid, match=SEVERAL):
        open_trace(tmp_path, None, 0)
