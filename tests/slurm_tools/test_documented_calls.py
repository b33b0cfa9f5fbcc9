"""The calls that Nextflow and Lightning make, as they document them."""

from __future__ import annotations

import re
from pathlib import Path

from moiety.testing.waiting import until
from tests.slurm_tools.conftest import Tools

NEXTFLOW = """\
#!/bin/bash
#SBATCH -J nf-task
#SBATCH -o {folder}/.command.log
#SBATCH --no-requeue
#SBATCH --signal B:USR2@30
echo done > {folder}/result
echo $? > {folder}/.exitcode
"""
LIGHTNING = """\
#!/bin/bash
#SBATCH --signal=SIGUSR1@90
#SBATCH --output={folder}/%j.log
target=$SLURM_JOB_ID
[ -n "$SLURM_ARRAY_JOB_ID" ] && target=${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}
trap 'scontrol requeue $target; requeued=1' USR1
echo $SLURM_RESTART_COUNT >> {folder}/starts-$target
[ "${{SLURM_RESTART_COUNT:-0}}" = 1 ] && exit 0
while :; do sleep 0.05; done
"""


def test_nextflow_submits_asks_and_reads(tools: Tools, tmp_path: Path) -> None:
    script = tmp_path / ".command.run"
    script.write_text(NEXTFLOW.format(folder=tmp_path))
    match = re.search(r"Submitted batch job (\d+)", tools.slurm("sbatch", str(script)))
    assert match is not None
    user = tools.slurm("squeue", "-h", "-j", match[1], "-t", "all", "-o", "%u").strip()
    seen = until(
        lambda: _states(tools, user).get(match[1]) == "CD", "Nextflow sees that its job is over"
    )
    assert seen
    assert (tmp_path / "result").read_text() == "done\n"
    tools.slurm("scancel", match[1])


def _states(tools: Tools, user: str) -> dict[str, str]:
    """As Nextflow reads them: two columns."""
    text = tools.slurm("squeue", "--noheader", "-o", "%i %t", "-t", "all", "-u", user)
    return dict(line.split() for line in text.splitlines())


def test_lightning_requeues_itself_when_it_is_signalled(tools: Tools, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(LIGHTNING.format(folder=tmp_path))
    for words, suffix in (((), ""), (("--array=4",), "_4")):
        number = tools.slurm("sbatch", "--parsable", *words, str(script)).strip()
        starts = tmp_path / f"starts-{number}{suffix}"
        until(starts.exists, "the job runs")
        tools.slurm("scancel", "--signal=USR1", "--batch", f"{number}{suffix}")
        row = tools.pool.ended(int(number))
        assert (row.state, row.restarts) == ("done", 1)
        assert len(starts.read_text().splitlines()) == 2
