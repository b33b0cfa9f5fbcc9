"""The variables that tell a program which workload of the pool it is."""

from __future__ import annotations

from moiety.pool.model.arrays import parse_array
from moiety.pool.model.records import Submission, WorkRow


def job_environment(row: WorkRow, asked: Submission) -> dict[str, str]:
    """The variables of one attempt."""
    found = {
        "MOIETY_JOB_ID": str(row.id),
        "MOIETY_JOB_NAME": row.name,
        "MOIETY_JOB_ATTEMPT": str(row.attempt),
        "MOIETY_JOB_PROJECT": row.project,
    }
    if row.array_id is not None:
        found["MOIETY_ARRAY_ID"] = str(row.array_id)
        found["MOIETY_ARRAY_INDEX"] = str(row.array_index)
        found["MOIETY_ARRAY_COUNT"] = str(len(parse_array(asked.array).indices))
    return found
