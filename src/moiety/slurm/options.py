"""The one table of options of sbatch, srun and salloc: what each does here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

ALL: Final = ("sbatch", "srun", "salloc")


class Effect(StrEnum):
    """What an option does here."""

    HONOURED = "honoured"
    NOTED = "noted"
    """It is accepted, kept with the job, and said once on stderr."""
    REFUSED = "refused"


class Argument(StrEnum):
    """Whether an option has a value."""

    NONE = "none"
    REQUIRED = "required"
    OPTIONAL = "optional"
    """Only behind an equals sign, or glued to the letter."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option."""

    name: str
    short: str
    argument: Argument
    effect: Effect
    words: str
    """What it does here; for the reference, and for the note on stderr."""
    programs: tuple[str, ...] = ALL
    alias_of: str = ""
    """The name of the option that this is another name of."""


BATCH: Final = ("sbatch",)
STEP: Final = ("srun",)
ATTACHED: Final = ("srun", "salloc")
_WITH: Final = {"": Argument.NONE, "=": Argument.REQUIRED, "?": Argument.OPTIONAL}


def _options(
    effect: Effect, rows: Iterable[tuple[str, str]], programs: tuple[str, ...] = ALL
) -> Iterable[Option]:
    """Rows of `s,name=` and words: a letter, a name, and `=` or `?` for a value."""
    for spelled, words in rows:
        short, comma, name = spelled.rpartition(",")
        mark = name[-1] if name[-1] in "=?" else ""
        yield Option(
            name.rstrip("=?"),
            short if comma else "",
            _WITH[mark],
            effect,
            words,
            programs,
        )


ONE_MACHINE: Final = "there is one machine"
OWNERS: Final = "the pool has projects instead"
PLACED: Final = "the engine places work"

OPTIONS: Final = (
    *_options(
        Effect.HONOURED,
        (
            ("A,account=", "the project of this name, if the pool has one; else it is noted"),
            ("b,begin=", "it does not start before"),
            ("D,chdir=", "the folder in which it runs"),
            ("c,cpus-per-task=", "counted for it"),
            ("cpus-per-gpu=", "counted for it"),
            ("d,dependency=", "after, afterany, afterok, afternotok, aftercorr, singleton"),
            ("e,error=", "a file with its errors"),
            ("exclusive?", "all processors and all GPUs"),
            ("export=", "ALL, NONE, NIL, names, NAME=VALUE"),
            ("G,gpus=", "whole GPUs"),
            ("gpus-per-node=", "whole GPUs"),
            ("gpus-per-task=", "whole GPUs for each task"),
            ("gres=", "whole GPUs; anything else is refused"),
            ("i,input=", "a file for its input"),
            ("J,job-name=", "its name"),
            ("mem=", "memory that is counted for it; 0: all"),
            ("mem-per-cpu=", "memory that is counted for it"),
            ("mem-per-gpu=", "memory that is counted for it"),
            ("mincpus=", "the least number of processors"),
            ("N,nodes=", "1, or from 1 to any number; more is refused"),
            ("n,ntasks=", "how many processes srun starts"),
            ("ntasks-per-node=", "how many processes srun starts"),
            ("ntasks-per-gpu=", "how many processes srun starts for each GPU, or GPUs for them"),
            ("open-mode=", "append or truncate"),
            ("o,output=", "a file with its output; folders that lack are made"),
            ("Q,quiet", "no notes"),
            ("t,time=", "its time limit; 0: none"),
        ),
    ),
    *_options(
        Effect.HONOURED,
        (
            ("a,array=", "the indices of an array, and how many run at once"),
            ("H,hold", "it waits for `scontrol release`"),
            ("no-requeue", "it fails if the machine restarts"),
            ("parsable", "only its number is printed"),
            ("requeue", "it waits again if the machine restarts"),
            ("signal=", "a signal before its time limit, to steps, or with B: to the script"),
            ("test-only", "it is checked and not submitted"),
            ("W,wait", "it ends when the job has ended, with its exit code"),
            ("wrap=", "a command instead of a script"),
            ("ignore-pbs", "lines for other systems are ignored anyway"),
        ),
        BATCH,
    ),
    *_options(
        Effect.HONOURED,
        (
            ("l,label", "each line begins with the number of its process"),
            ("jobid=", "the job whose step it is"),
            ("X,disable-status", "the first Ctrl-C is passed on to the processes"),
            ("K,kill-on-bad-exit?", "the first process that fails ends the others"),
            ("pty", "the first process gets the terminal"),
            ("u,unbuffered", "output is never kept back"),
            ("W,wait=", "how long after the first process has ended the others may run"),
            ("quit-on-interrupt", "the first Ctrl-C ends the step"),
            ("overlap", "steps never wait for each other"),
            ("E,preserve-env", "the variables of the job stay as they are"),
            ("multi-prog", "a file says which program each process is"),
        ),
        STEP,
    ),
    *_options(
        Effect.HONOURED,
        (
            ("H,hold", "it waits for `scontrol release`"),
            ("I,immediate?", "it gives up if it does not begin within this many seconds"),
            ("signal=", "a signal before its time limit"),
        ),
        ATTACHED,
    ),
    *_options(
        Effect.HONOURED,
        (("k,no-kill?", "as ever"),),
        ("salloc",),
    ),
    *_options(
        Effect.NOTED,
        (
            ("acctg-freq=", "nothing is sampled"),
            ("bb=", "there is no burst buffer"),
            ("bbf=", "there is no burst buffer"),
            ("cluster-constraint=", ONE_MACHINE),
            ("M,clusters=", ONE_MACHINE),
            ("comment=", "kept, and shown by squeue and sacct"),
            ("C,constraint=", "there are no features"),
            ("contiguous", ONE_MACHINE),
            ("S,core-spec=", "processors are counted, not bound"),
            ("cores-per-socket=", "processors are counted, not bound"),
            ("cpu-freq=", "clocks stay as they are"),
            ("deadline=", "use --time"),
            ("delay-boot=", "nothing is booted"),
            ("m,distribution=", ONE_MACHINE),
            ("x,exclude=", ONE_MACHINE),
            ("B,extra-node-info=", "processors are counted, not bound"),
            ("get-user-env?", "the environment is that of the submission"),
            ("gid=", "a job runs as who submits it"),
            ("gpu-bind=", "all processes of a job see its GPUs"),
            ("gpu-freq=", "clocks stay as they are"),
            ("gres-flags=", PLACED),
            ("hint=", "processors are counted, not bound"),
            ("kill-on-invalid-dep=", "such a job waits, and says why"),
            ("L,licenses=", "there are no licences"),
            ("mail-type=", "no mail is sent"),
            ("mail-user=", "no mail is sent"),
            ("mcs-label=", OWNERS),
            ("mem-bind=", "memory is counted, not bound"),
            ("network=", ONE_MACHINE),
            ("nice?", OWNERS),
            ("F,nodefile=", ONE_MACHINE),
            ("w,nodelist=", ONE_MACHINE),
            ("ntasks-per-core=", "processors are counted, not bound"),
            ("ntasks-per-socket=", "processors are counted, not bound"),
            ("ntasks-per-tres=", "use --ntasks-per-gpu"),
            ("O,overcommit", "processors are counted, not bound"),
            ("s,oversubscribe", "GPUs are lent while they are idle anyway"),
            ("p,partition=", "there is one partition; the pool has projects"),
            ("power=", "clocks stay as they are"),
            ("prefer=", "there are no features"),
            ("priority=", OWNERS),
            ("profile=", "nothing is sampled"),
            ("q,qos=", OWNERS),
            ("reboot", "nothing is booted"),
            ("reservation=", OWNERS),
            ("sockets-per-node=", "processors are counted, not bound"),
            ("spread-job", ONE_MACHINE),
            ("switches=", ONE_MACHINE),
            ("thread-spec=", "processors are counted, not bound"),
            ("threads-per-core=", "processors are counted, not bound"),
            ("time-min=", "--time holds"),
            ("tmp=", "space on disks is not counted"),
            ("use-min-nodes", ONE_MACHINE),
            ("v,verbose", "there is nothing more to say"),
            ("wait-all-nodes=", ONE_MACHINE),
            ("wckey=", "kept, and shown by sacct"),
            ("context=", "there is no such plugin"),
        ),
    ),
    *_options(
        Effect.NOTED,
        (
            ("batch=", ONE_MACHINE),
            ("k,no-kill?", ONE_MACHINE),
            ("propagate?", "limits are those of the pool's supervisor"),
        ),
        BATCH,
    ),
    *_options(
        Effect.NOTED,
        (
            ("accel-bind=", "all processes of a job see its GPUs"),
            ("bcast?", ONE_MACHINE),
            ("compress?", ONE_MACHINE),
            ("cpu-bind=", "processors are counted, not bound"),
            ("epilog=", "nothing runs around a step"),
            ("exact", "steps never wait for each other"),
            ("het-group=", ONE_MACHINE),
            ("interactive", "as ever"),
            ("k,no-kill?", ONE_MACHINE),
            ("launch-cmd", "as ever"),
            ("mpi=", "processes find each other with SLURM_PROCID and SLURM_NTASKS; mpirun works"),
            ("msg-timeout=", ONE_MACHINE),
            ("prolog=", "nothing runs around a step"),
            ("propagate?", "limits are those of the job"),
            ("r,relative=", ONE_MACHINE),
            ("resv-ports?", "ports are not kept"),
            ("slurmd-debug=", "there is nothing more to say"),
            ("task-epilog=", "nothing runs around a step"),
            ("task-prolog=", "nothing runs around a step"),
            ("T,threads=", ONE_MACHINE),
        ),
        STEP,
    ),
    *_options(
        Effect.NOTED,
        (("bell", "as ever"), ("no-bell", "as ever"), ("kill-command?", "SIGTERM")),
        ("salloc",),
    ),
    *_options(
        Effect.REFUSED,
        (
            ("container=", "there are no OCI bundles: run podman or apptainer in the script"),
            ("no-shell", "a job without a shell has nothing that could end it: use sbatch"),
            ("export-file=", "use --export"),
            ("gpus-per-socket=", "GPUs are not counted by socket: use --gpus"),
            ("uid=", "a job runs as who submits it"),
        ),
    ),
    *(
        Option(name, "", Argument.REQUIRED, Effect.HONOURED, "", alias_of=of)
        for name, of in (("tasks-per-node", "ntasks-per-node"), ("cluster", "clusters"))
    ),
    Option("cpu_bind", "", Argument.REQUIRED, Effect.NOTED, "", STEP, "cpu-bind"),
    Option("mem_bind", "", Argument.REQUIRED, Effect.NOTED, "", STEP, "mem-bind"),
    Option("job-id", "", Argument.REQUIRED, Effect.HONOURED, "", STEP, "jobid"),
)


def options_of(program: str) -> tuple[Option, ...]:
    """The options of one program."""
    return tuple(option for option in OPTIONS if program in option.programs)


VARIABLES: Final = {
    "sbatch": {
        "SBATCH_ACCOUNT": "account", "SBATCH_ARRAY_INX": "array", "SBATCH_CHDIR": "chdir",
        "SBATCH_CLUSTERS": "clusters", "SBATCH_CONSTRAINT": "constraint",
        "SBATCH_CPUS_PER_GPU": "cpus-per-gpu", "SBATCH_DELAY_BOOT": "delay-boot",
        "SBATCH_DISTRIBUTION": "distribution", "SBATCH_ERROR": "error",
        "SBATCH_EXCLUSIVE": "exclusive", "SBATCH_EXPORT": "export", "SBATCH_GPUS": "gpus",
        "SBATCH_GPU_BIND": "gpu-bind", "SBATCH_GPU_FREQ": "gpu-freq",
        "SBATCH_GPUS_PER_NODE": "gpus-per-node", "SBATCH_GPUS_PER_TASK": "gpus-per-task",
        "SBATCH_GRES": "gres", "SBATCH_GRES_FLAGS": "gres-flags", "SBATCH_HINT": "hint",
        "SBATCH_INPUT": "input", "SBATCH_JOB_NAME": "job-name",
        "SBATCH_MEM_PER_CPU": "mem-per-cpu", "SBATCH_MEM_PER_GPU": "mem-per-gpu",
        "SBATCH_MEM_PER_NODE": "mem", "SBATCH_NETWORK": "network",
        "SBATCH_NO_REQUEUE": "no-requeue", "SBATCH_OPEN_MODE": "open-mode",
        "SBATCH_OUTPUT": "output", "SBATCH_OVERCOMMIT": "overcommit",
        "SBATCH_PARTITION": "partition", "SBATCH_POWER": "power", "SBATCH_PROFILE": "profile",
        "SBATCH_QOS": "qos", "SBATCH_REQUEUE": "requeue", "SBATCH_RESERVATION": "reservation",
        "SBATCH_REQ_SWITCH": "switches", "SBATCH_SIGNAL": "signal",
        "SBATCH_SPREAD_JOB": "spread-job", "SBATCH_THREADS_PER_CORE": "threads-per-core",
        "SBATCH_TIMELIMIT": "time", "SBATCH_USE_MIN_NODES": "use-min-nodes",
        "SBATCH_WAIT": "wait", "SBATCH_WAIT_ALL_NODES": "wait-all-nodes",
        "SBATCH_WCKEY": "wckey",
    },
    "salloc": {
        "SALLOC_ACCOUNT": "account", "SALLOC_CONSTRAINT": "constraint",
        "SALLOC_CPUS_PER_GPU": "cpus-per-gpu", "SALLOC_EXCLUSIVE": "exclusive",
        "SALLOC_GPUS": "gpus", "SALLOC_GPUS_PER_NODE": "gpus-per-node",
        "SALLOC_GPUS_PER_TASK": "gpus-per-task", "SALLOC_GRES": "gres",
        "SALLOC_IMMEDIATE": "immediate", "SALLOC_MEM_PER_CPU": "mem-per-cpu",
        "SALLOC_MEM_PER_GPU": "mem-per-gpu", "SALLOC_MEM_PER_NODE": "mem",
        "SALLOC_PARTITION": "partition", "SALLOC_QOS": "qos",
        "SALLOC_RESERVATION": "reservation", "SALLOC_SIGNAL": "signal",
        "SALLOC_TIMELIMIT": "time", "SALLOC_WCKEY": "wckey",
    },
    "srun": {
        "SLURM_ACCOUNT": "account", "SLURM_CONSTRAINT": "constraint",
        "SLURM_CPUS_PER_GPU": "cpus-per-gpu", "SRUN_CPUS_PER_TASK": "cpus-per-task",
        "SLURM_EXCLUSIVE": "exclusive", "SRUN_EXPORT_ENV": "export", "SLURM_GPUS": "gpus",
        "SLURM_GPUS_PER_NODE": "gpus-per-node", "SLURM_GPUS_PER_TASK": "gpus-per-task",
        "SLURM_GRES": "gres", "SLURM_IMMEDIATE": "immediate", "SLURM_JOB_NAME": "job-name",
        "SLURM_KILL_BAD_EXIT": "kill-on-bad-exit", "SLURM_LABELIO": "label",
        "SLURM_NTASKS": "ntasks", "SLURM_NTASKS_PER_NODE": "ntasks-per-node",
        "SLURM_OPEN_MODE": "open-mode", "SLURM_PARTITION": "partition", "SLURM_QOS": "qos",
        "SLURM_RESERVATION": "reservation", "SLURM_STDERRMODE": "error",
        "SLURM_STDINMODE": "input", "SLURM_STDOUTMODE": "output", "SLURM_TIMELIMIT": "time",
        "SLURM_UNBUFFEREDIO": "unbuffered", "SLURM_WAIT": "wait", "SLURM_WCKEY": "wckey",
    },
}  # fmt: skip
"""Variables that count for less than the command line, and for more than the script."""
