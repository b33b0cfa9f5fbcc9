"""Random clusters with everything in them, by seed: for what holds of all of them."""

from __future__ import annotations

from random import Random

from moiety.policy.model.cluster import GpuDevice, Link, Node
from moiety.policy.model.queues import Amounts, Queue
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Affinity, Domain, Shape, Strictness, Subgroup, Workload

LEAVES = ("a", "b", "c", "d")
LEVELS = ("rack", "node", "nvlink")
NOW_S = 5000.0


def cluster(seed: int, nodes: int = 12, jobs: int = 40) -> Snapshot:
    """Nothing runs yet; half of the jobs have no submission time (0), so that waves can be made."""
    random = Random(seed)
    machines = tuple(_node(random, at) for at in range(nodes))
    whole = sum(len(node.gpus) for node in machines) * 1000
    queues = (
        Queue("x", None, Amounts(gpu_milli=whole // 2)),
        Queue("y", None, Amounts(gpu_milli=whole // 3), weight=2.0, created_s=1),
        *(
            Queue(
                name,
                "xy"[at % 2],
                Amounts(gpu_milli=random.randrange(0, whole // 4 + 1, 500)),
                Amounts(gpu_milli=random.choice((None, None, whole // 3 + 1))),
                random.choice((0.0, 1.0, 3.0)),
                random.randrange(2),
                created_s=at,
            )
            for at, name in enumerate(LEAVES)
        ),
    )
    work = tuple(_workload(random, at) for at in range(jobs))
    credit = {queue.name: random.choice((0.0, -1e5, 1e3, 1e5)) for queue in queues}
    return Snapshot(machines, work, (), queues, now_s=NOW_S, seed=seed, credit=credit)


def _node(random: Random, at: int) -> Node:
    count = random.choice((0, 1, 2, 4, 8))
    gpus = tuple(
        GpuDevice(index, (Link(index ^ 1, "nvlink", 300.0),) if count > 1 else ())
        for index in range(count)
    )
    return Node(
        f"n{at:02}",
        random.choice((8000, 32000, 64000)),
        random.choice((64, 256)),
        gpus,
        random.choice(("A100", "T4")) if count else "",
        16000,
        topology=(("rack", f"r{at % 3}"),),
    )


def _workload(random: Random, at: int) -> Workload:
    tasks = random.choice((1, 1, 1, 2, 3, 4))
    domain = Domain(random.choice(LEVELS), random.choice(tuple(Strictness)))
    kind = random.random()
    return Workload(
        f"w{at:02}",
        (
            Subgroup(
                "main",
                _shape(random),
                tasks,
                random.randint(1, tasks),
                domain if random.random() < 0.2 else None,
                _company(random) if random.random() < 0.2 else Affinity(),
            ),
        ),
        random.choice(LEAVES),
        priority=random.choice((0, 5)),
        is_preemptible=kind > 0.2,
        is_opportunistic=kind > 0.9,
        submitted_s=random.choice((float(at), NOW_S - at)),
        max_run_s=random.choice((None, None, 500.0)),
        domain=Domain("rack", random.choice(tuple(Strictness))) if random.random() < 0.15 else None,
    )


def _shape(random: Random) -> Shape:
    return random.choice(
        (
            Shape(1000, 1, 1, 1000),
            Shape(2000, 4, 2, 1000),
            Shape(4000, 8, 4, 1000),
            Shape(500, 1, 1, 300),
            Shape(500, 1, 1, 500, 0, frozenset({"T4"})),
            Shape(1000, 1, 1, 0, 9000),
            Shape(1000, 1, 1, 100, 12000),
            Shape(1000, 1, 1, 800, 1000),
            Shape(2000, 2),
        )
    )


def _company(random: Random) -> Affinity:
    label = random.choice(("red", "blue"))
    return random.choice(
        (Affinity(affinity=label), Affinity(anti_affinity=label), Affinity(exclusion=label))
    )
