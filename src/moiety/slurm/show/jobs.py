"""One job as Slurm's programs show it: a row of the pool, or the waiting tasks of an array."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from moiety.slurm.labels import JobLabels, of_labels, pool_name
from moiety.slurm.show import jobids, reasons, states
from moiety.slurm.show.states import JobState

PARTITION: Final = "pool"
"""The one partition: all GPUs of the machine."""
NULL: Final = "(null)"


@dataclass(frozen=True)
class SlurmJob:
    """A row with what is known beside it."""

    row: Mapping[str, Any]
    now_s: float
    host: str = ""
    kind: str = ""
    """The engine's reason why it waits."""
    why: str = ""
    """The same in a sentence."""
    expected_s: float | None = None
    """When it is expected to start."""
    indices: tuple[int, ...] | None = None
    """The tasks that this line stands for."""
    steps: Sequence[Mapping[str, Any]] = ()
    """What `srun` started in it, as the pool has it."""

    @cached_property
    def labels(self) -> JobLabels:
        """What Slurm's words asked for; of other front ends nothing."""
        return of_labels(self.row["labels"]) or JobLabels(program="", tasks=self.row["tasks"])

    @property
    def number(self) -> int:
        """The number of its workload."""
        return int(self.row["id"])

    @property
    def array(self) -> int | None:
        """The number of its array."""
        found: int | None = self.row["array_id"]
        return found

    @property
    def shown_id(self) -> str:
        """What `squeue` calls it: `12`, `12_3`, `12_[4-9%2]`."""
        if self.array is None:
            return str(self.number)
        if self.indices is None:
            return f"{self.array}_{self.row['array_index']}"
        return f"{self.array}_[{self.tasks_text}]"

    @property
    def target(self) -> str:
        """What the pool calls this job alone: also the first task of an array."""
        if self.array is None:
            return str(self.number)
        return f"{self.array}_{self.row['array_index']}"

    @property
    def tasks_text(self) -> str:
        """The index of its task, or those that the line stands for with what may run at once."""
        if self.array is None:
            return "N/A"
        if self.indices is None:
            return str(self.row["array_index"])
        most = self.row["array_at_once"]
        return jobids.compress(self.indices) + (f"%{most}" if most else "")

    @property
    def state(self) -> JobState:
        """Slurm's state."""
        return states.state_of(self.row)

    @property
    def waits(self) -> bool:
        """Whether it has no GPUs yet."""
        return self.row["state"] in states.WAITING

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.row["state"] in states.ENDS

    @property
    def reason(self) -> str:
        """Why it waits or has failed, in Slurm's words."""
        return reasons.reason_of(self.row, self.kind, self.now_s)

    @property
    def name(self) -> str:
        """Its name as it was said, unless it was changed; that of another user is not known."""
        name = str(self.row["name"]) or NULL
        return self.labels.name if name == pool_name(self.labels.name) else name

    @property
    def partition(self) -> str:
        """What was said, or the one that there is."""
        return self.labels.partition.partition(",")[0] or PARTITION

    @property
    def account(self) -> str:
        """What was said, or its project."""
        return self.labels.account or str(self.row["project"])

    @property
    def cpus(self) -> int:
        """Processors that are counted for it; at least one for each task."""
        counted = -(-int(self.row["cpu_milli"]) // 1000)
        return max(counted, self.labels.cpus, self.labels.tasks, 1)

    @property
    def memory_mib(self) -> int:
        """Memory of the machine that is counted for it."""
        return int(self.row["memory_mib"]) or self.labels.mem_mib

    @property
    def gres(self) -> str:
        """Its GPUs as `gres:gpu:2`; empty for none."""
        if self.labels.gres:
            return f"gres:{self.labels.gres}"
        return f"gres:gpu:{self.row['gpus']}" if self.row["gpus"] else ""

    @property
    def limit_s(self) -> float | None:
        """Its time limit."""
        found: float | None = self.row["time_limit_s"]
        return found

    @property
    def command(self) -> str:
        """The script with its arguments, or the program; none for a script without a file."""
        own = "" if self.labels.program else str(self.row["command"])
        return self.labels.command or own

    @property
    def eligible_s(self) -> float | None:
        """From when on it could begin; None while it is held, or what it waits for may not come."""
        row = self.row
        if row["state"] == "held" or (self.waits and row.get("blocked")):
            return None
        return float(max(row["submitted_s"], row["begin_after_s"]))

    @property
    def start_s(self) -> float | None:
        """When it began, or is expected to."""
        if self.row["began_s"]:
            return float(self.row["began_s"])
        if self.is_over:
            return float(self.row["ended_s"])  # it was cancelled before it began
        begin_s, eligible_s = float(self.row["begin_after_s"]), self.eligible_s
        is_later = eligible_s is not None and begin_s > self.now_s
        return begin_s if self.expected_s is None and is_later else self.expected_s

    @property
    def end_s(self) -> float | None:
        """When it ended, or will at the latest."""
        if self.is_over:
            return float(self.row["ended_s"])
        began_s = self.row["began_s"]
        return began_s + self.limit_s if began_s and self.limit_s else None

    @property
    def ran_s(self) -> float:
        """How long it runs, without the time in which it was suspended."""
        began_s = self.row["began_s"]
        if not began_s:
            return 0.0
        end_s = self.row["ended_s"] or self.now_s
        rested_s = self.row["suspended_s"]
        if since_s := self.row["suspended_since_s"]:
            rested_s += max(end_s - since_s, 0.0)
        return float(max(end_s - began_s - rested_s, 0.0))

    @property
    def nodes(self) -> str:
        """The machine, if it runs there or ran."""
        return self.host if self.row["began_s"] else ""

    @property
    def exit_text(self) -> str:
        """Exit code and signal: `3:0`, `0:9`."""
        return f"{self.row['exit_code'] or 0}:{self.row['exit_signal'] or 0}"

    @property
    def nice(self) -> int:
        """The higher, the later it goes."""
        return -int(self.row["priority"])

    @property
    def dependency(self) -> str:
        """What it waits for."""
        return str(self.row["depends"]) or self.labels.dependency

    @property
    def work_dir(self) -> str:
        """Its folder, if that was said."""
        return self.labels.work_dir or self.labels.submit_dir


def folded(jobs: Iterable[SlurmJob]) -> Iterator[SlurmJob]:
    """The same, but the waiting tasks of an array that never ran are one job for each state."""
    groups: dict[tuple[int, str], list[SlurmJob]] = {}
    order: list[SlurmJob | tuple[int, str]] = []
    for job in jobs:
        if job.array is None or not job.waits or job.row["attempt"] or job.indices is not None:
            order.append(job)
            continue
        key = job.array, str(job.row["state"])
        if key not in groups:
            groups[key] = []
            order.append(key)
        groups[key].append(job)
    for each in order:
        if isinstance(each, SlurmJob):
            yield each
            continue
        tasks = groups[each]
        yield replace(tasks[0], indices=tuple(job.row["array_index"] for job in tasks))


def of_page(page: Mapping[str, Any], host: str) -> Iterator[SlurmJob]:
    """The jobs of a page of `GET /records`."""
    now_s = time.time()
    waiting, steps = page.get("waiting", {}), page.get("steps", {})
    for row in page["rows"]:
        found = waiting.get(str(row["id"]), {})
        indices = found.get("indices", "")
        yield SlurmJob(
            row,
            now_s,
            host,
            found.get("kind", ""),
            found.get("text", ""),
            found.get("expected_s"),
            jobids.expand(indices) if indices else None,
            steps.get(str(row["id"]), ()),
        )
