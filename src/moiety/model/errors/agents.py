"""Errors between a command and the agent."""

from __future__ import annotations

from collections.abc import Sequence

from moiety.model.errors.base import ExitCode, MoietyError


class AgentError(MoietyError):
    """The agent did not do what the command asked it for."""


class NoAgent(AgentError):
    """No agent runs in this directory."""

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, directory: str, *, shared: bool = False) -> None:
        if shared:
            super().__init__(
                f"no agent of all users runs in {directory}",
                "as an administrator `systemctl start moiety`, or `moiety agent start --system`; "
                "MOIETY_AGENT=own for an agent of your own",
            )
            return
        super().__init__(
            f"no agent runs in {directory}",
            "`moiety agent start`, or `moiety run`, which starts an agent of your own; MOIETY_DIR "
            "and MOIETY_AGENT (own or system) name another agent",
        )


class AgentNotYours(AgentError):
    """The agent's directory belongs to another user."""

    exit_code = ExitCode.NO_PERMISSION

    def __init__(self, directory: str) -> None:
        super().__init__(
            f"the agent in {directory} belongs to another user",
            "MOIETY_DIR=<a directory of yours>, for an agent of your own",
        )


class AgentSilent(AgentError):
    """The agent did not answer, or its answer cannot be read."""

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, problem: str) -> None:
        super().__init__(f"the agent did not answer: {problem}", "`moiety doctor`")


class AgentVersion(AgentError):
    """The agent does not speak the command's version of the protocol."""

    exit_code = ExitCode.PROTOCOL

    def __init__(self, agent: str, own: str) -> None:
        super().__init__(
            f"the agent that runs is moiety {agent}, this is {own}",
            "`moiety agent restart` with the newer of the two; programs run on meanwhile",
        )


class AgentAlreadyRunning(AgentError):
    """Another agent runs in this directory."""

    exit_code = ExitCode.TEMPORARY

    def __init__(self, directory: str, owner: str) -> None:
        super().__init__(
            f"an agent runs in {directory} already: {owner or 'unknown'}",
            "`moiety status` to see it, `moiety stop` to end it",
        )


class AgentBusy(AgentError):
    """Programs use the agent that was asked to end."""

    exit_code = ExitCode.TEMPORARY

    def __init__(self, programs: Sequence[str]) -> None:
        super().__init__(
            f"the agent is in use by {', '.join(programs)}",
            "end them first, or --force: they run on, and the next agent takes them over",
        )


class AgentStopping(AgentError):
    """The agent is about to end and takes no further programs."""

    exit_code = ExitCode.TEMPORARY

    def __init__(self) -> None:
        super().__init__("the agent is about to end", "run the same command again in a moment")


class BadRequest(AgentError):
    """The agent does not know what it was asked for, or cannot do it."""

    exit_code = ExitCode.PROTOCOL

    def __init__(self, problem: str) -> None:
        super().__init__(f"the agent refused the request: {problem}", "`moiety doctor`")


class BadAgentDirectory(AgentError):
    """The agent's directory is not writable, belongs to another user, or its path is too long."""

    exit_code = ExitCode.CANNOT_CREATE

    def __init__(self, path: str, problem: str, *, shared: bool = False) -> None:
        hint = "MOIETY_DIR=<a directory of yours with a short path>"
        if shared:
            hint = "run it as root, or MOIETY_SYSTEM_DIR=<another directory with a short path>"
        super().__init__(f"{path} cannot be the agent's directory: {problem}", hint)


class WorkloadUnknown(AgentError):
    """No program that shares the GPUs has this number, pid or name."""

    exit_code = ExitCode.NO_INPUT

    def __init__(self, workload: str) -> None:
        super().__init__(
            f"no program that shares the GPUs is {workload!r}",
            "a tenant's number, pid or name, as `moiety ps` lists them",
        )


class UserUnknown(AgentError):
    """No user of this machine has this name, and no program on its GPUs is of such a user."""

    exit_code = ExitCode.NO_INPUT

    def __init__(self, user: str) -> None:
        super().__init__(
            f"no user is called {user!r}",
            "a name or number in the column USER of `moiety ps -a`, or one that `id NAME` knows",
        )


class WorkloadAmbiguous(AgentError):
    """Several programs have the name that was given."""

    exit_code = ExitCode.USAGE

    def __init__(self, name: str, tenants: Sequence[int]) -> None:
        super().__init__(
            f"{len(tenants)} programs are called {name!r}: tenants {', '.join(map(str, tenants))}",
            "the tenant's number, which `moiety ps` lists",
        )


class StillRunning(AgentError):
    """A program that was waited for has not ended in time."""

    exit_code = ExitCode.TEMPORARY

    def __init__(self, program: str, waited: str) -> None:
        super().__init__(f"{program} still runs after {waited}", "a longer --timeout, or none")


class NotAllowed(AgentError):
    """Only an administrator, or the user whose program it is, may do that."""

    exit_code = ExitCode.NO_PERMISSION

    def __init__(
        self, problem: str, hint: str = "do it as root, or as the user who runs the agent"
    ) -> None:
        super().__init__(problem, hint)


class TooMany(AgentError):
    """A user has as many programs, or connections to the agent, as one user may have.

    The message says how many, and of what.
    """

    exit_code = ExitCode.TEMPORARY

    def __init__(self, problem: str, hint: str = "end some of them") -> None:
        super().__init__(problem, hint)


class ContainerShareInUse(AgentError):
    """Processes in containers use the share that was to be removed."""

    exit_code = ExitCode.TEMPORARY

    def __init__(self, name: str, pids: Sequence[int]) -> None:
        super().__init__(
            f"{len(pids)} processes use the share {name!r}: pid {', '.join(map(str, pids))}",
            "end their containers first, or --force: they run on until they need the agent",
        )


class ContainerShareUnknown(AgentError):
    """No share for containers has this name."""

    exit_code = ExitCode.NO_INPUT

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no share for containers is called {name!r}",
            f"`moiety container ls`, or `moiety container spec --name {name}` to make it",
        )


class MetricsRefused(AgentError):
    """The agent cannot listen at the address where it is to offer its metrics."""

    exit_code = ExitCode.CANNOT_CREATE

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(
            f"metrics cannot be offered at {address}: {problem}",
            "another --metrics address; 127.0.0.1:0 takes any free port",
        )
