"""What the watch sees, as rows for `moiety watch` and as sentences for `moiety status`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from moiety.agent.control.protocol import Watched, WatchRequest
from moiety.agent.control.rows import OffenceRow, PlannedRow, StrangerRow
from moiety.agent.core.client import Client
from moiety.agent.monitor.usage_monitor import Stranger, UsageMonitor, took
from moiety.config.table import of_section
from moiety.enforcement.escalation import CaseView
from moiety.enforcement.policy import Policy
from moiety.model.errors import BadArgument
from moiety.model.format import format_bytes, format_duration

NOTES_MAX: Final = 20


def watched(monitor: UsageMonitor | None, asked: WatchRequest, now_s: float) -> Watched:
    """The answer; raises BadArgument for a policy that makes no sense."""
    if monitor is None:
        return Watched(policy={}, is_blind=False, strangers=[], offences=[])
    policy = tried(monitor.policy, asked.policy)
    planned = []
    if asked.plan:
        planned = [
            PlannedRow(
                after_s=after_s,
                deed=action.deed.value,
                offence=action.offence.value,
                who=str(action.use.who),
                text=action.text,
            )
            for after_s, action in monitor.plan(policy)
        ]
    return Watched(
        policy=texts(policy),
        is_blind=monitor.finder.is_blind,
        strangers=[_stranger(each, policy, now_s) for each in monitor.strangers.values()],
        offences=[_offence(case, now_s) for case in monitor.escalation.cases()],
        planned=planned,
    )


def tried(policy: Policy, said: dict[str, str]) -> Policy:
    """A policy with some settings changed; raises BadArgument."""
    known = {setting.key: setting for setting in of_section("watch")}
    changes = {}
    for key, text in said.items():
        if key not in known:
            raise BadArgument(f"the watch has no setting {key!r}", "moiety watch --help")
        try:
            changes[known[key].field] = known[key].parse(text)
        except ValueError as error:
            hint = getattr(error, "hint", "") or "moiety watch --help"
            raise BadArgument(f"--{key}: {error}", hint) from None
    return dataclasses.replace(policy, **changes)


def texts(policy: Policy) -> dict[str, str]:
    """A policy as it is written, by key."""

    def time(amount_s: float) -> str:
        return format_duration(amount_s).replace(" ", "") if amount_s else "0"

    return {
        "every": time(policy.every_s),
        "unregistered": str(policy.unregistered),
        "limit": str(policy.limit),
        "lease": str(policy.lease),
        "exempt": ",".join(map(str, policy.exempt)),
        "dry-run": str(policy.dry_run).lower(),
        "slack": "" if policy.slack_bytes is None else format_bytes(policy.slack_bytes),
        "idle": time(policy.idle_s),
        "slow": time(policy.slow_s),
    }


def notes(monitor: UsageMonitor | None, clients: Mapping[int, Client], now_s: float) -> list[str]:
    """Sentences on programs that slow others down, or use GPUs without moiety; costliest first."""
    if monitor is None:
        return []
    found = [
        (cost.waited_s, f"{clients[tenant]} {cost}")
        for tenant, cost in monitor.costs.items()
        if tenant in clients and _is_worth_it(monitor, cost.waited_s)
    ]
    found += [_of_stranger(each, now_s) for each in monitor.strangers.values()]
    found.sort(key=lambda note: -note[0])
    return [text for _, text in found[:NOTES_MAX]]


def _is_worth_it(monitor: UsageMonitor, waited_s: float) -> bool:
    return 0 < monitor.policy.slow_s <= waited_s


def _of_stranger(stranger: Stranger, now_s: float) -> tuple[float, str]:
    use = stranger.use
    worked_s = stranger.worked_s(now_s)
    what = took(stranger, now_s) if worked_s >= 0.1 else f"uses GPU {use.gpu} without moiety"
    figures = "" if worked_s >= 0.1 else f" ({use.figures})"
    return worked_s, f"{use.who} {what}{figures}"


def _stranger(stranger: Stranger, policy: Policy, now_s: float) -> StrangerRow:
    use = stranger.use
    return StrangerRow(
        pid=use.who.pid,
        user=use.who.user,
        program=use.who.command,
        gpu=use.gpu,
        used_bytes=use.used_bytes,
        busy=use.busy,
        worked_s=stranger.worked_s(now_s),
        since_s=now_s - stranger.since_s,
        container=use.who.container,
        runtime=use.who.runtime,
        pod=use.who.pod,
        exempt=str(policy.lets_off(use.who, use.gpu) or ""),
    )


def _offence(case: CaseView, now_s: float) -> OffenceRow:
    use = case.use
    return OffenceRow(
        offence=case.offence.value,
        pid=use.who.pid,
        user=use.who.user,
        program=use.who.command,
        gpu=use.gpu,
        text=case.text,
        since_s=now_s - case.since_s,
        done=[step.value for step in case.done],
        next=case.next.value if case.next else "",
        next_s=max(0.0, case.due_s - now_s) if case.next else 0.0,
        tenant=use.tenant,
        container=use.who.container,
        pod=use.who.pod,
    )
