"""Examples for the help of each command; a test reads every line of them."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "run": (
        ("moiety run -- python train.py", "share the GPUs with other programs run like this"),
        ("moiety run --gpu 0.5 --memory-limit 20GiB -- ./a.out", "half of the time, 20 GiB"),
        ("moiety run --latency --name chat -- python serve.py", "an answer goes before all else"),
        ("moiety run --gpus 2 -- torchrun train.py", "two GPUs of the machine, chosen for it"),
        ("moiety run --gpu-index 0,3 -- ./a.out", "these two"),
        ("moiety run --exclusive -- ./measure", "a GPU with no other program on it"),
        ("moiety run --say always -- make train 2>log", "write into the log why it waits"),
    ),
    "ps": (
        ("moiety ps", "who shares the GPUs, and who waits for what"),
        ("moiety ps -a", "also who is starting, and who uses the GPUs without moiety"),
        ("moiety ps -o wide", "with gangs, modes and what cannot leave"),
        ("moiety ps --user ann --sort resident", "of one user, the largest first"),
        ("moiety ps -o json", "for a script; -o yaml has the same values"),
    ),
    "inspect": (
        ("moiety inspect train.py", "all that is known of it, by name, number or pid"),
        ("moiety inspect 3 -o json", "for a script"),
    ),
    "kill": (
        ("moiety kill 3", "end one process with SIGTERM"),
        ("moiety kill --signal INT train.py", "as Ctrl-C does, all processes of a workload"),
    ),
    "wait": (
        ("moiety wait train.py", "it returns when the program has ended"),
        ("moiety wait 3 --timeout 1h", "exit code 75 if it still runs then"),
    ),
    "attach": (
        ("moiety attach 7", "follow what it writes; Ctrl-C leaves it running"),
        ("moiety attach 7 -- nvidia-smi", "a command in its share, environment and folder"),
        ("moiety attach 7 --shell", "a shell there"),
    ),
    "suspend": (
        ("moiety suspend train.py", "its memory leaves the GPU; it waits"),
        ("moiety suspend 3 --timeout 5s", "wait no longer until its memory has left"),
    ),
    "resume": (("moiety resume train.py", "it goes on where it was"),),
    "status": (
        ("moiety status", "how full the GPUs are, and who holds them"),
        ("moiety status -o wide --history", "clocks, ECC errors, and the last hour"),
    ),
    "gpu": (
        ("moiety gpu ls", "what of each GPU is promised, and the programs on it"),
        ("moiety gpu drain 3", "no new programs on GPU 3; those on it go on"),
        ("moiety gpu resume 3", "new programs again"),
    ),
    "gpu ls": (("moiety gpu ls -o json", "for a script"),),
    "gpu drain": (("moiety gpu drain 2 3", "before these two are taken out, say"),),
    "gpu resume": (("moiety gpu resume 2 3", "they get new programs again"),),
    "watch": (
        ("moiety watch", "who uses the GPUs without moiety"),
        ("moiety watch --dry-run --unregistered warn,60s,kill", "what would happen then"),
    ),
    "set": (
        ("moiety set chat --priority high", "by the name that `moiety ps` shows"),
        ("moiety set 3 --gpu 30% --memory-limit none", "by its number"),
        ("moiety set --agent --turn-min 200ms", "for all, and for the agents that follow"),
    ),
    "top": (("moiety top", "live"), ("moiety top --once", "one look, for a log")),
    "events": (
        ("moiety events -f", "as they happen"),
        ("moiety events --since 1h --warnings", "what went wrong lately"),
        ("moiety events -o json --of chat", "of one program, a document on each line"),
    ),
    "trace": (
        ("moiety trace", "three lines about where the time went"),
        ("moiety trace -o trace.json --follow 30s", "for Perfetto or Chrome's tracing page"),
    ),
    "kube node": (("moiety kube node --mode plugin", "beside the agent of the same machine"),),
    "kube": (
        ("moiety kube node --mode dra", "the DRA driver of this node, beside its agent"),
        ("moiety kube node --mode plugin", "units of moiety.dev/gpu-percent, 100 a GPU"),
    ),
    "up": (
        ("moiety up", "after that, `moiety submit`"),
        ("moiety up --agent system", "as root: for all users of this machine"),
    ),
    "submit": (
        ("moiety submit -- python train.py", "a whole GPU"),
        (
            "moiety submit --project nlp --gpu 0.5 --memory 20GiB --name sweep -- python train.py",
            "half of a GPU's time, and 20 GiB that stay on it",
        ),
        ("moiety submit --gpus 4 --time 12h -- torchrun train.py", "four GPUs, half a day"),
        ("moiety submit --gpus 0 -- ./collect", "none: it only waits for its turn"),
        ("moiety submit -f workload.yaml", "options and command from a file"),
    ),
    "queue": (
        ("moiety queue", "the oldest first"),
        ("moiety queue --project nlp --state pending", "what of it waits"),
        ("moiety queue --projects", "what each project has, and may have"),
        ("moiety queue --watch", "again after each change"),
        ("moiety queue -o json", "for a script"),
    ),
    "logs": (("moiety logs sweep", "so far"), ("moiety logs -f 7", "until it has ended")),
    "explain": (("moiety explain 7", "who is ahead, what is full, which limit is reached"),),
    "cancel": (
        ("moiety cancel 7 8", "these two"),
        ("moiety cancel --project nlp", "all of a project"),
    ),
    "hold": (("moiety hold 7", "until `moiety release 7`"),),
    "release": (("moiety release 7", "also after three starts that failed"),),
    "backup": (("moiety backup /backup/pool.db", "a copy of the store, while the pool runs"),),
    "restore": (
        ("moiety restore /backup/pool.db", "the copy instead of the store, after `moiety down`"),
    ),
    "history": (
        ("moiety history --limit 5", "the last five"),
        ("moiety history --project nlp -o json", "for a script"),
    ),
    "update": (("moiety update 12 --gpu 0.3", "less of its GPU, while it runs"),),
    "apply": (("moiety apply -f pool.yaml", "quotas, limits, weights, priorities"),),
    "diff": (("moiety diff -f pool.yaml", "before `moiety apply -f pool.yaml`"),),
    "down": (("moiety down", "the queue stays"),),
    "slurm": (("moiety slurm install ~/bin", "then sbatch job.sh"),),
    "slurm check": (
        ("moiety slurm check job.sh -o json", "what would become of it"),
        ("moiety slurm check -- --gres=gpu:2 job.sh", "with options of sbatch"),
    ),
    "slurm install": (("moiety slurm install ~/bin", "sbatch, squeue and the others"),),
    "container": (("moiety container spec --name half --gpu 0.5", "a share for containers"),),
    "container spec": (
        ("moiety container spec --name half --gpu 0.5", "half of the time, for podman and docker"),
        (
            "moiety container spec --name chat --latency --memory-limit 8GiB --output -",
            "only print",
        ),
    ),
    "container ls": (("moiety container ls -o json", "who has which share, for a script"),),
    "container rm": (("moiety container rm half", "the share and its specification"),),
    "container check": (
        ("moiety container check / python3", "/ being the folder with the files of an image"),
    ),
    "agent start": (
        ("moiety agent start --capacity 40GiB", "share out less than all"),
        ("moiety agent start --foreground --metrics 9402", "in this terminal, with /metrics"),
    ),
    "agent unit": (
        ("moiety agent unit >/etc/systemd/system/moiety.service", "an agent for all users"),
        ("moiety agent unit --user moiety --overdue kill", "as a user of its own"),
    ),
    "agent stop": (("moiety agent stop --force", "programs that share the GPUs keep running"),),
    "agent restart": (
        ("moiety agent restart", "after an upgrade of moiety; programs run on meanwhile"),
    ),
    "agent reload": (("moiety agent reload", "after a change of /etc/moiety/config.toml"),),
    "agent status": (
        ("moiety agent status -o json", "for a script; exit code 3 if there is none"),
    ),
    "agent record": (
        ("moiety agent record events.recording", "the last minutes of this agent"),
        ("moiety agent record --follow 30s events.recording", "and the next 30 s"),
    ),
    "agent replay": (
        ("moiety agent replay events.recording", "exit code 1 if it decides differently now"),
    ),
    "agent": (
        ("moiety agent start --capacity 40GiB", "share out less than all"),
        ("moiety agent start --foreground --metrics 9402", "in this terminal, with /metrics"),
        ("moiety agent status", "exit code 3 if there is none"),
    ),
    "stop": (("moiety stop", "refused while programs share the GPUs"),),
    "config show": (
        ("moiety config show --origin --changed", "what is not the default, and who says so"),
        ("moiety config show run agent.turn-min", "a section, or a setting by its name"),
    ),
    "config check": (("moiety config check ./config.toml", "exit code 78 if something is wrong"),),
    "config": (
        ("moiety config show --origin", "everything, and where it stands"),
        ("moiety config show -o json run", "one section, for a script"),
        ("moiety config check", "before an agent reads it"),
    ),
    "sim run": (
        ("moiety sim run --load 100 -o json", "the trace that comes with moiety"),
        ("moiety sim run traces/july --live --faster 2", "your own, at twice the load"),
    ),
    "sim compare": (
        ("moiety sim compare --placing fgd --placing spread --seed 7", "side by side"),
        ("moiety sim compare --cluster 64 --plot orders.svg jobs.csv", "who goes first, for jobs"),
    ),
    "sim explain": (("moiety sim explain cases.json train-7", "why it waits, and until when"),),
    "sim what-if": (
        ("moiety sim what-if --queue team --gpus 2 cases.json", "before it is submitted"),
    ),
    "sim capacity": (
        ("moiety sim capacity --wait 30 jobs.csv", "how many GPUs, by the history of a cluster"),
        ("moiety sim capacity --cluster 112 --split 48@1,64 jobs.csv", "which pools serve better"),
    ),
    "sim scenario": (("moiety sim scenario --strict cases.json", "what the queues lead to"),),
    "sim": (
        ("moiety sim run", "on the trace that comes with moiety"),
        ("moiety sim compare --placing default --placing fgd --plot rules.svg", "side by side"),
        ("moiety sim explain case.json train", "why a job waits, and until when"),
        ("moiety sim what-if case.json --queue team --gpus 8 --tasks 4", "before it is submitted"),
        ("moiety sim run traces/july --live --faster 2 -o json", "your own, at twice the load"),
    ),
    "jupyter install": (
        ("moiety jupyter install --name gpu-half -- --gpu 0.5", "with a share of its own"),
        ("moiety jupyter install --like ir --name ir-gpu", "a kernel that is there, shared"),
    ),
    "jupyter": (
        ("moiety jupyter install", "a kernel that shares, beside the one that does not"),
        ("moiety jupyter install --name gpu-half -- --gpu 0.5", "with a share of its own"),
    ),
    "completion": (
        ('eval "$(moiety completion bash)"', "in ~/.bashrc"),
        ('eval "$(moiety completion zsh)"', "in ~/.zshrc, after compinit"),
        ("moiety completion fish >~/.config/fish/completions/moiety.fish", "once"),
    ),
    "help": (("moiety help run", "as `moiety run --help`"), ("moiety help config show", "")),
    "doctor": (
        ("moiety doctor", "exit code 1 if something is bad"),
        ("moiety doctor --bundle report.tar.gz", "what a bug report needs, without secrets"),
    ),
    "version": (("moiety version", ""),),
}


def text(command: str) -> str:
    """The lines for one command, as they stand under its help; empty if there are none."""
    lines = [f"  {line}" + (f"\n      {why}" if why else "") for line, why in EXAMPLES[command]]
    return "\b\nExamples:\n" + "\n".join(lines) if lines else ""
