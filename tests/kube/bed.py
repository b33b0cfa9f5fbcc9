"""A cluster of one node, inside what `inside.py` makes.

    python tests/kube/bed.py start              start it, and leave it running
    python tests/kube/bed.py exec COMMAND...    run a command beside it (kubectl, pytest, sh ...)
    python tests/kube/bed.py stop               stop it: nothing is left
    python tests/kube/bed.py run COMMAND...     start it for one command

There is one that was started by hand for each user of /tmp: MOIETY_KUBE_NAME=x gives it a name.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from moiety.testing.waiting import DEADLINE_S, until
from tests.kube import images, inside, programs, setup

LOOK_S: Final = 0.1
"""Between two looks at the cluster: each is a process."""
NODE_PROGRAMS: Final = ("containerd", "kubelet")
STARTED: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
READY: Final = "ready"
"""This file says that the cluster can be used."""


class Bed:
    """The cluster in the namespaces that this process is in.

    Programs are started so that they outlive whoever started them: any process inside can stop and
    start them, by the process ids that lie in files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands = programs.commands(folder)
        self.kubeconfig = folder / "admin.kubeconfig"
        places = [str(setup.folder() / place) for place in setup.PLACES]
        self.env = {
            **os.environ,
            "PATH": ":".join([*places, os.environ.get("PATH", "/usr/bin:/bin"), "/usr/sbin"]),
            "KUBECONFIG": str(self.kubeconfig),
            "CONTAINERD_ADDRESS": programs.CONTAINERD,
        }

    # Programs

    def log(self, name: str) -> Path:
        """Where a program's output is."""
        return self.folder / "logs" / f"{name}.log"

    def pid(self, name: str) -> int | None:
        """A program's process id, if it runs."""
        try:
            pid, began = (self.folder / "pids" / name).read_text().split()
        except OSError:
            return None
        return int(pid) if inside.started_at(int(pid)) == began else None

    def start(
        self,
        name: str,
        command: Sequence[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
    ) -> int:
        """Start a program of the cluster, or any `command` under a new name; its process id."""
        assert self.pid(name) is None, f"{name} runs already"
        if name == "kubelet":  # it ends when nobody answers; elsewhere systemd starts it again
            self.wait_for_containerd()
        self.log(name).parent.mkdir(exist_ok=True)
        (self.folder / "pids").mkdir(exist_ok=True)
        full = list(command if command is not None else self.commands[name])
        with self.log(name).open("a") as log:
            # The shell ends at once, so that the program is a child of the first process here.
            said = subprocess.run(
                ["sh", "-c", '"$@" >&2 & echo $!', "sh", *full],
                env={**self.env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
                check=True,
            ).stdout
        pid = int(said)
        (self.folder / "pids" / name).write_text(f"{pid} {inside.started_at(pid)}")
        return pid

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a program a signal, and wait until it is gone."""
        pid = self.pid(name)
        if pid is None:
            return
        os.kill(pid, number)
        self.until(lambda: self.pid(name) is None, f"{name} is gone")

    def restart(self, name: str) -> None:
        """Kill a program of the cluster as power failure would, and start it."""
        self.kill(name)
        self.start(name)

    def must_run(self, name: str) -> None:
        """Raises an AssertionError with the end of its output if the program has ended."""
        if self.pid(name) is None:
            tail = "\n".join(self.log(name).read_text(errors="replace").splitlines()[-25:])
            raise AssertionError(f"{name} has ended:\n{tail}")

    # Requests

    def call(
        self, *command: str, stdin: str | None = None, timeout_s: float = DEADLINE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command beside the cluster (`kubectl`, `ctr` ...)."""
        return subprocess.run(
            list(command),
            env=self.env,
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def must(self, *command: str, stdin: str | None = None, timeout_s: float = DEADLINE_S) -> str:
        """The same for a command that succeeds; what it printed."""
        done = self.call(*command, stdin=stdin, timeout_s=timeout_s)
        if done.returncode:
            raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def kubectl(
        self, *arguments: str, stdin: str | None = None, timeout_s: float = DEADLINE_S
    ) -> str:
        """What kubectl prints."""
        return self.must("kubectl", *arguments, stdin=stdin, timeout_s=timeout_s)

    def get(self, *arguments: str) -> Any:
        """An object, or a list of objects."""
        return json.loads(self.kubectl("get", "-o", "json", *arguments))

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create objects, or change them."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(listed))

    def until(
        self, condition: Callable[[], bool], what: str, *, deadline_s: float = DEADLINE_S
    ) -> None:
        """Wait until `condition()` holds; an AssertionError that names `what` if it never does."""
        until(condition, what, deadline_s, step_s=LOOK_S)

    # The cluster

    def bring_up(self) -> None:
        """All of it but kwok, until the node is ready."""
        for name, text in programs.files(self.folder).items():
            file = self.folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        self.keep_in_memory("etcd")
        (self.folder / "pki").mkdir(exist_ok=True)
        key = str(self.folder / "pki" / "accounts.key")
        self.must("openssl", "genrsa", "-out", key, "2048")
        self.make_client_certificate()
        self.start("containerd")
        self.start("etcd")
        self.start("kube-apiserver")
        self.import_usual()
        self.wait_for_api()
        for name in ("kube-controller-manager", "kube-scheduler", "kubelet"):
            self.start(name)
        self.wait_for_node()
        (self.folder / READY).touch()

    def make_client_certificate(self) -> None:
        """What the API server shows to webhooks, and the authority of it."""
        pki = self.folder / "pki"
        for name, signer in ((programs.CLIENTS, ()), (programs.API_SERVER, self.signer())):
            made = ("-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}")
            out = ("-keyout", str(pki / f"{name}.key"), "-out", str(pki / f"{name}.crt"))
            self.must("openssl", "req", "-x509", *made, *out, *signer)

    def signer(self) -> tuple[str, ...]:
        """The options by which openssl signs with the authority of clients."""
        authority = self.folder / "pki" / programs.CLIENTS
        files = ("-CA", f"{authority}.crt", "-CAkey", f"{authority}.key")
        return (*files, "-addext", "basicConstraints=critical,CA:FALSE")

    def client_ca(self) -> tuple[str, ...]:
        """The options by which a webhook answers the API server only."""
        authority = str(self.folder / "pki" / f"{programs.CLIENTS}.crt")
        return ("--client-ca", authority, "--client-name", programs.API_SERVER)

    def keep_in_memory(self, name: str) -> None:
        """A folder that no disk slows down."""
        target = self.folder / name
        target.mkdir()
        inside.mount("-t", "tmpfs", "-o", "mode=700", name, str(target))

    def import_image(self, archive: Path) -> None:
        """Give the node an image."""
        self.must("ctr", "-n", "k8s.io", "image", "import", str(archive))

    def import_usual(self) -> None:
        """The images that all tests use."""
        self.wait_for_containerd()
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            for archive in images.write_usual(Path(folder)):
                self.import_image(archive)

    def wait_for_containerd(self) -> None:
        """Until containerd answers."""

        def answers() -> bool:
            self.must_run("containerd")
            return self.call("ctr", "version").returncode == 0

        self.until(answers, "containerd answers")

    def wait_for_api(self) -> None:
        """Until the API server serves."""

        def is_ready() -> bool:
            self.must_run("kube-apiserver")
            return self.call("kubectl", "get", "--raw", "/readyz").returncode == 0

        self.until(is_ready, "the API server is ready")

    def wait_for_node(self, name: str = programs.NODE_NAME) -> None:
        """Until pods can be placed on the node."""
        path = '{.status.conditions[?(@.type=="Ready")].status}'

        def is_ready() -> bool:
            for program in (*NODE_PROGRAMS, *STARTED):
                self.must_run(program)
            done = self.call("kubectl", "get", "node", name, "-o", f"jsonpath={path}")
            return done.stdout == "True"

        self.until(is_ready, "the node is ready")


def found() -> Bed | None:
    """The cluster of the namespaces that this process is in, if it is in any."""
    folder = os.environ.get(inside.VARIABLE)
    return Bed(Path(folder)) if folder else None


def up() -> Bed:
    """The same, brought up if it is not."""
    bed = found()
    assert bed is not None, f"{inside.VARIABLE} is not set: start this with tests/kube/inside.py"
    if not (bed.folder / READY).exists():
        bed.bring_up()
    return bed


# By hand


def state() -> Path:
    """The file that says which bed was started by hand."""
    name = os.environ.get("MOIETY_KUBE_NAME", "bed")
    return Path(tempfile.gettempdir()) / f"moiety-bed-{os.getuid()}-{name}"


def started() -> tuple[int, Path] | None:
    """The first process of the bed that was started by hand, and its folder."""
    try:
        pid, began, folder = state().read_text().split()
    except (OSError, ValueError):
        return None
    return (int(pid), Path(folder)) if inside.started_at(int(pid)) == began else None


def own(action: str, *arguments: str) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), action, *arguments]


def start() -> int:
    if started():
        print("it runs already", file=sys.stderr)
        return 1
    log = state().with_suffix(".log").open("w")
    process = subprocess.Popen(
        own("daemon"), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    end_s = time.monotonic() + 2 * DEADLINE_S
    while not ((at := started()) and (at[1] / READY).exists()):
        if process.poll() is not None or time.monotonic() > end_s:
            print(f"it did not start:\n{Path(log.name).read_text()}", file=sys.stderr)
            return 1
        time.sleep(LOOK_S)  # noqa: TID251 (no test: a command of a developer)
    print(f"KUBECONFIG={at[1]}/admin.kubeconfig   (in its own network: bed.py exec kubectl ...)")
    print(f"logs: {at[1]}/logs")
    return 0


def stop() -> int:
    at = started()
    if at is None:
        print("it does not run", file=sys.stderr)
        return 1
    os.kill(at[0], signal.SIGTERM)
    while started() is not None or at[1].exists():
        time.sleep(LOOK_S)  # noqa: TID251 (no test: a command of a developer)
    state().unlink(missing_ok=True)
    return 0


def daemon() -> int:
    """What `start` leaves behind: outside, it waits for the end."""
    place = Path(tempfile.gettempdir())
    inside.remove_stale(place)
    scratch, _ = inside.make_scratch(place)
    state().write_text(f"{os.getpid()} {inside.started_at(os.getpid())} {scratch}")
    return inside.run(own("hold"), scratch=scratch)


def hold() -> int:
    """Inside: the cluster, until SIGTERM."""
    bed = up()
    (bed.folder / "holder").write_text(str(os.getpid()))
    signal.sigwait({signal.SIGTERM})
    return 0


def execute(command: Sequence[str]) -> int:
    """A command in the namespaces of the bed that was started by hand."""
    at = started()
    if at is None:
        print("it does not run: bed.py start", file=sys.stderr)
        return 1
    (unshare,) = Path(f"/proc/{at[0]}/task/{at[0]}/children").read_text().split()
    (init,) = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
    env = {**Bed(at[1]).env, inside.VARIABLE: str(at[1])}
    there = ["sh", "-c", 'cd "$0" && exec "$@"', os.getcwd()]  # the folder as mounted inside
    full = ["nsenter", "-t", init, "-m", "-n", "-p", "--", *there, *command]
    return subprocess.run(full, env=env, check=False).returncode


def main(arguments: list[str]) -> int:
    action, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    simple = {"start": start, "stop": stop, "daemon": daemon, "hold": hold}
    if action in simple and not rest:
        return simple[action]()
    if action == "exec" and rest:
        return execute(rest)
    if action == "run" and rest:
        return inside.main(own("within", *rest))
    if action == "within" and rest:
        bed = up()
        return subprocess.run(rest, env=bed.env, check=False).returncode
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
