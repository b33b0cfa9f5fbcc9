"""How a workload of several processes is started: a launcher, and what each rank learns."""

from __future__ import annotations

import json
from typing import Final

from moiety.pool.launch.ports import PortBook
from moiety.pool.model.records import Submission
from moiety.pool.starter.programs import TASKS, program

HERE: Final = "127.0.0.1"


def command_of(asked: Submission, ports: PortBook) -> list[str]:
    """The words that are executed: the program, or the launcher of its processes."""
    words = [asked.program, *asked.argv[1:]]
    if asked.tasks == 1:
        return words
    templates = rank_templates(asked, ports.take(asked.tasks + 1))
    receiver = "first" if asked.warn_first else "all"
    return [str(program(TASKS)), str(asked.tasks), receiver, *templates, "--", *words]


def rank_templates(asked: Submission, port: int) -> list[str]:
    """The variables of each rank; in them `%r` is the rank, and `%[a;b]` the part of that place.

    `port` is the first of as many ports as there are processes, and one more.
    """
    size = str(asked.tasks)
    workers = [f"{HERE}:{port + 1 + rank}" for rank in range(asked.tasks)]
    # json has no %r of its own: the number goes in afterwards
    cluster = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": -1}})
    found = {
        "RANK": "%r", "LOCAL_RANK": "%r", "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size,
        "NODE_RANK": "0", "GROUP_RANK": "0", "MASTER_ADDR": HERE, "MASTER_PORT": str(port),
        "OMPI_COMM_WORLD_RANK": "%r", "OMPI_COMM_WORLD_SIZE": size,
        "OMPI_COMM_WORLD_LOCAL_RANK": "%r", "OMPI_COMM_WORLD_LOCAL_SIZE": size,
        "OMPI_COMM_WORLD_NODE_RANK": "%r",
        "HOROVOD_RANK": "%r", "HOROVOD_SIZE": size, "HOROVOD_LOCAL_RANK": "%r",
        "HOROVOD_LOCAL_SIZE": size, "HOROVOD_CROSS_RANK": "0", "HOROVOD_CROSS_SIZE": "1",
        "TF_CONFIG": cluster.replace("-1", "%r"),
    }  # fmt: skip
    if asked.gpus_per_task:
        found["CUDA_VISIBLE_DEVICES"] = f"%[{';'.join(_cards(asked))}]"
    return [f"{name}={value}" for name, value in found.items()]


def _cards(asked: Submission) -> list[str]:
    """By rank: its GPUs among those of the workload."""
    each = asked.gpus_per_task
    return [
        ",".join(str(card) for card in range(rank * each, (rank + 1) * each))
        for rank in range(asked.tasks)
    ]
