"""The lines of `scontrol show job`."""

from __future__ import annotations

from moiety.slurm import times
from moiety.slurm.show.account_columns import tres
from moiety.slurm.show.account_lines import AccountLine
from moiety.slurm.show.jobs import SlurmJob
from moiety.slurm.show.queue_columns import group_of, shown
from moiety.slurm.show.states import ENDS


def lines_of(job: SlurmJob) -> list[str]:
    """A job in Slurm's keys and order; `Comment` is the engine's sentence if none was said."""
    row, said = job.row, job.labels
    return [
        f"JobId={job.number}{_array(job)} JobName={job.name}",
        f"   UserId={row['user']}({row['uid']}) GroupId={group_of(job)}({_gid(job)}) MCS_label=N/A",
        f"   Priority={0 if row['state'] == 'held' else (1 << 31) + row['priority']} "
        f"Nice={job.nice} Account={shown(job.account)} QOS={shown(said.qos)}",
        f"   JobState={job.state.name} Reason={job.reason} Dependency={shown(job.dependency)}",
        f"   Requeue={int(row['requeue'])} Restarts={row['restarts']} "
        f"BatchFlag={int(said.program not in ('srun', 'salloc'))} Reboot=0 "
        f"ExitCode={job.exit_text}",
        f"   RunTime={times.full(job.ran_s)} TimeLimit={_limit(job)} TimeMin=N/A",
        f"   SubmitTime={times.stamp(row['submitted_s'])} "
        f"EligibleTime={times.stamp(job.eligible_s)}",
        f"   AccrueTime={times.stamp(_accrues_s(job))}",
        f"   StartTime={times.stamp(job.start_s)} EndTime={times.stamp(job.end_s)} Deadline=N/A",
        f"   SuspendTime={times.stamp(row['suspended_since_s'], 'None')} "
        f"SecsPreSuspend={int(row['suspended_s'])} LastSchedEval={times.stamp(job.now_s)} "
        "Scheduler=Main",
        f"   Partition={job.partition} AllocNode:Sid={job.host}:0",
        f"   ReqNodeList={shown(said.node_list)} ExcNodeList={shown(said.exclude)}",
        f"   NodeList={job.nodes}",
        *([f"   BatchHost={job.nodes}"] if job.nodes else []),
        f"   NumNodes=1 NumCPUs={job.cpus} NumTasks={max(said.tasks, 1)} "
        f"CPUs/Task={said.cpus_per_task or 1} ReqB:S:C:T=0:0:*:*",
        f"   TRES={tres(AccountLine(job))}",
        f"   Socks/Node=* NtasksPerN:B:S:C={said.ntasks_per_node}:0:*:* CoreSpec=*",
        f"   MinCPUsNode={said.cpus_per_task or 1} {_memory(job)} MinTmpDiskNode=0",
        f"   Features={shown(said.features)} DelayBoot=00:00:00",
        f"   OverSubscribe={'NO' if said.exclusive else 'OK'} Contiguous=0 "
        f"Licenses={shown(said.licenses)} Network=(null)",
        f"   Command={shown(job.command)}",
        f"   WorkDir={shown(job.work_dir)}",
        *([f"   Comment={comment}"] if (comment := _comment(job)) else []),
        f"   StdErr={row['stderr']}",
        f"   StdIn={said.stdin or '/dev/null'}",
        f"   StdOut={row['stdout']}",
        "   Power=",
        *([f"   TresPerNode={job.gres}"] if job.gres else []),
    ]


def _array(job: SlurmJob) -> str:
    if job.array is None:
        return ""
    most = job.row["array_at_once"]
    limit = f" ArrayTaskThrottle={most}" if most else ""
    return f" ArrayJobId={job.array} ArrayTaskId={job.tasks_text}{limit}"


def _gid(job: SlurmJob) -> int:
    import pwd

    try:
        return pwd.getpwuid(job.row["uid"]).pw_gid
    except KeyError:
        return int(job.row["uid"])


def _limit(job: SlurmJob) -> str:
    return "UNLIMITED" if job.limit_s is None else times.full(job.limit_s)


def _accrues_s(job: SlurmJob) -> float | None:
    """From when on its waiting counts."""
    found = job.eligible_s
    return None if found is None or found > job.now_s else found


def _memory(job: SlurmJob) -> str:
    if job.labels.mem_per_cpu_mib:
        return f"MinMemoryCPU={job.labels.mem_per_cpu_mib}M"
    mib = job.memory_mib
    text = f"{mib >> 10}G" if mib and mib % 1024 == 0 else f"{mib}M" if mib else "0"
    return f"MinMemoryNode={text}"


def _comment(job: SlurmJob) -> str:
    if job.labels.comment or job.row["state"] in ENDS:
        return job.labels.comment or str(job.row["reason"])
    return job.why or str(job.row["reason"])
