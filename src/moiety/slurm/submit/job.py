"""A job from options and a script: the submission that the pool gets."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moiety.slurm.errors import JobRefused
from moiety.slurm.getopt import Found, Reader
from moiety.slurm.labels import JobLabels, pool_name, to_labels
from moiety.slurm.submit import environment, values
from moiety.slurm.submit.begin import begin_s
from moiety.slurm.submit.output import files_of, pool_pattern
from moiety.slurm.submit.request import JobRequest, MachineSize, request_of
from moiety.slurm.submit.script import Script

SCRIPT: Final = "{script}"
GRACE_S: Final = 30.0
"""Slurm's usual KillWait."""
COMMAND_MAX: Final = 4096
"""Letters of a script's path and its arguments that are kept for lists."""


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A job that can be submitted."""

    request: JobRequest
    name: str
    labels: JobLabels
    submission: dict[str, Any]
    """As `moiety.pool.model.records` has it."""

    @property
    def project(self) -> str:
        """The project that its account may be; empty: none was named."""
        return self.labels.account


def options_of_script(script: Script) -> Found:
    """The options of all #SBATCH lines; raises JobRefused."""
    reader = Reader("sbatch")
    found: Found = []
    for words in script.lines:
        options, rest = reader.read(words)
        if rest:
            raise JobRefused(f"Invalid directive found in batch script: {rest[0]}")
        found += options
    return found


def batch_job(
    script: Script,
    path: str,
    arguments: Sequence[str],
    typed: Found,
    machine: MachineSize,
    variables: Mapping[str, str] | None = None,
    folder: str = "",
) -> BatchJob:
    """The job of a script; `path` is empty for one that was read from stdin or wrapped."""
    variables = os.environ if variables is None else variables
    reader = Reader("sbatch")
    found = options_of_script(script) + reader.of_environment(variables) + typed
    request = request_of(found, machine)
    who = environment.submitter(folder or os.getcwd())
    said = request.said
    name = said.get("job-name") or (os.path.basename(path) if path else "")
    name = name or ("wrap" if "wrap" in said else "sbatch")
    host = machine.host or who.host
    command = " ".join([os.path.join(who.folder, path), *arguments]) if path else ""
    labels = job_labels("sbatch", request, who, command)
    output, error = files_of(
        said.get("output", ""), said.get("error", ""), bool(request.array), host, who.user
    )
    own = environment.of_allocation(request, who, name, labels)
    own |= environment.of_batch(request, host) | environment.OF_STEPS
    going = environment.exported(variables, said.get("export"))
    submission = common(request, name, labels, going, own, said)
    submission |= {
        "program": script.interpreter[0],
        "argv": [*script.interpreter, SCRIPT, *arguments],
        "cwd": labels.work_dir,
        "script": script.text,
        "script_encoding": script.encoding,
        "stdout": named(output, name),
        "stderr": named(error, name),
        "open_mode": "append" if said.get("open-mode", "t")[:1].lower() == "a" else "truncate",
        "array": said.get("array", "").strip("[]").removesuffix("%0"),
    }
    if said.get("input", "/dev/null") != "/dev/null":
        pattern = pool_pattern(said["input"], host, who.user, bool(request.array))
        submission["stdin"] = named(pattern, name)
    return BatchJob(request, name, labels, submission)


def common(
    request: JobRequest,
    name: str,
    labels: JobLabels,
    going: dict[str, str],
    own: dict[str, str],
    said: Mapping[str, str],
) -> dict[str, Any]:
    """What the submissions of sbatch, srun and salloc have in common."""
    going = {key: value for key, value in going.items() if key not in own or key == "TMPDIR"}
    if "TMPDIR" in going:
        del own["TMPDIR"]
    mask = os.umask(0o022)
    os.umask(mask)
    found: dict[str, Any] = {
        "environment": _as_text(going),
        "variables": _as_text(own),
        "name": pool_name(name),
        "gpus": request.gpus,
        "gpu_model": request.gpu_model,
        "cpus": float(request.cpus),
        "host_memory_bytes": request.mem_mib << 20,
        "time_limit_s": float(request.time_limit_s) if request.time_limit_s else None,
        "grace_s": GRACE_S,
        "hold": "hold" in said,
        "umask": mask,
        "requeue": "no-requeue" not in said,
        "preemptible": True,
        "labels": to_labels(labels),
    }
    if "dependency" in said:
        found["depends"] = values.dependency(said["dependency"])
    if "begin" in said:
        found["begin_s"] = begin_s(said["begin"], time.time())
    if request.warn and request.warn.to_script and request.time_limit_s:
        found |= {"warn_signal": request.warn.number, "warn_s": float(request.warn.before_s)}
        found["warn_first"] = True
    elif request.warn:
        own_signal = f"{request.warn.number}@{request.warn.before_s}"
        found["variables"]["MOIETY_STEP_SIGNAL"] = own_signal
    return found


def job_labels(
    program: str, request: JobRequest, who: environment.Submitter, command: str
) -> JobLabels:
    """What is kept of a job for squeue and the others."""
    said = request.said
    gpu = f"gpu:{request.gpu_model}:" if request.gpu_model else "gpu:"
    name = said.get("job-name", "")
    return JobLabels(
        program=program,
        name=name if name and pool_name(name) != name else "",
        command=command[:COMMAND_MAX],
        submit_dir=who.folder,
        work_dir=os.path.join(who.folder, said["chdir"]) if said.get("chdir") else who.folder,
        comment=said.get("comment", ""),
        account=said.get("account", ""),
        partition=said.get("partition", ""),
        qos=said.get("qos", ""),
        wckey=said.get("wckey", ""),
        reservation=said.get("reservation", ""),
        features=said.get("constraint", ""),
        licenses=said.get("licenses", ""),
        mail_type=said.get("mail-type", ""),
        mail_user=said.get("mail-user", ""),
        node_list=said.get("nodelist", ""),
        exclude=said.get("exclude", ""),
        nice=_number(said.get("nice", "0")),
        ntasks=request.ntasks or 0,
        ntasks_per_node=request.ntasks_per_node or 0,
        tasks=request.tasks,
        cpus_per_task=request.cpus_per_task or 0,
        cpus=request.cpus,
        mem_mib=request.mem_mib,
        mem_per_cpu_mib=request.mem_per_cpu_mib,
        gres=f"{gpu}{request.gpus}" if request.gpus else "",
        time_limit_min=values.minutes(request.time_limit_s),
        time_min=values.minutes(values.seconds(said["time-min"], "time-min"))
        if "time-min" in said
        else 0,
        exclusive=int(request.exclusive),
        requeue=int("no-requeue" not in said),
        dependency=said.get("dependency", ""),
        signal=said.get("signal", ""),
        array=said.get("array", "").partition("%")[0],
        stdin=said.get("input", ""),
        stdout=said.get("output", ""),
        stderr=said.get("error", ""),
        open_mode=said.get("open-mode", ""),
        notes="\n".join(request.notes),
    )


def named(pattern: str, name: str) -> str:
    """A pattern with the name filled in: the pool knows another name if this has spaces."""
    parts = pattern.split("%%")
    return "%%".join(re.sub(r"%\d*x", lambda _: name.replace("%", "%%"), p) for p in parts)


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else 0


def _as_text(variables: Mapping[str, str]) -> dict[str, str]:
    """Only what JSON can hold: a value that is no UTF-8 is left out."""
    return {
        name: value
        for name, value in variables.items()
        if not any("\ud800" <= letter <= "\udfff" for letter in name + value)
    }
