"""`kubectl moiety`: a cluster's GPUs, and the pods that share them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import click

from moiety.cli.kube_options import ClusterOptions, cluster_options
from moiety.cli.output import emit_json, output_option, size, table
from moiety.model.errors import PodRefusal

if TYPE_CHECKING:
    from moiety.kube.client import ApiClient
    from moiety.kube.cluster_report import ClusterObjects

LOOK_S: Final = 0.5
RESIZES: Final = ("Resized", "ResizeRefused")
"""The reasons of Events with which a node answers a resize."""
GPU_TITLES: Final = ("NODE", "GPU", "MODEL", "MEMORY", "PROMISED", "KEPT", "SHARES", "TROUBLE")
UNIT_TITLES: Final = ("NODE", "RESOURCE", "UNITS", "USED")
POD_TITLES: Final = ("NAMESPACE", "POD", "STATE", "NODE", "GPU", "ASKED", "RECEIVED", "ALLOCATED")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@cluster_options
@click.pass_context
def kubectl(ctx: click.Context) -> None:
    """Look at GPUs that pods share, and change shares."""
    ctx.ensure_object(ClusterOptions)


namespace_option = click.option("-n", "--namespace", metavar="NAME", help="The pod's namespace.")


@kubectl.command()
@click.option("-n", "--namespace", metavar="NAME", help="Only the pods of this namespace.")
@click.option("--system", default="moiety-system", help="The namespace that moiety runs in.")
@output_option
@cluster_options
@click.pass_obj
def status(options: ClusterOptions, namespace: str | None, system: str, output: str) -> None:
    """Show the GPUs, and the pods that share them: what they asked for and received.

    Of all namespaces, if your rights are for all; else of the kubeconfig's, and what is left out
    is said.
    """
    _show(_look(options, namespace, system), output)


@kubectl.command()
@click.option("-n", "--namespace", metavar="NAME", help="Only the pods of this namespace.")
@click.option("--system", default="moiety-system", help="The namespace that moiety runs in.")
@click.option("--every", default=2.0, type=click.FloatRange(0.1), help="Seconds between looks.")
@click.option("--count", type=click.IntRange(1), help="End after this number of looks.")
@output_option
@cluster_options
@click.pass_obj
def top(
    options: ClusterOptions, namespace: str | None, system: str, every: float, count: int | None,
    output: str,
) -> None:  # fmt: skip
    """Look at the same again and again; Ctrl-C ends it."""
    done = 0
    while count is None or done < count:
        if done:
            time.sleep(every)
        seen = _look(options, namespace, system)
        done += 1
        if output != "json":
            click.clear()
        _show(seen, output)


@kubectl.command()
@click.argument("pod")
@namespace_option
@click.option("--container", help="Only this container's share.")
@click.option("--gpu", help="A part of the GPU's time, such as 0.6; none: no guarantee.")
@click.option("--gpu-limit", help="The largest part; none: all of it.")
@click.option("--memory", help="What stays on the GPU, such as 10Gi; none: nothing.")
@click.option("--memory-limit", help="The most it may allocate; none: all that the GPU has.")
@click.option("--priority", help="low, normal or high.")
@click.option("--latency", type=click.Choice(["true", "false"]), help="Goes first at once.")
@click.option("--wait", default=30.0, type=click.FloatRange(0), help="Seconds until it counts.")
@output_option
@cluster_options
@click.pass_obj
def resize(
    options: ClusterOptions, /, pod: str, namespace: str | None, container: str | None, wait: float,
    output: str, **values: str | None,
) -> None:  # fmt: skip
    """Change the share of a pod while it runs.

    The pod's node does it, and the running program has it at once. Refused where the GPU has been
    promised to others.
    """
    from moiety.kube import resize as resizing

    words = {key.replace("_", "-"): text for key, text in values.items() if text is not None}
    if not words:
        raise click.UsageError("nothing to change: --gpu, --memory and the like say to what")
    text = resizing.written(words, container or "")
    answer = _run(options, lambda client: _resize(client, pod, namespace, text, wait))
    if answer is not None and answer.startswith("refused"):
        raise PodRefusal(pod, answer.removeprefix("refused").lstrip(": "))
    if output == "json":
        emit_json({"pod": pod, "asked": text, "done": answer is not None})
    elif answer is None:
        click.echo(f"{pod}: {text} is written down; its node has not answered within {wait:g} s")
    else:
        click.echo(f"{pod}: {text}")


@kubectl.command()
@click.argument("pod")
@namespace_option
@click.option("--system", default="moiety-system", help="The namespace that moiety runs in.")
@output_option
@cluster_options
@click.pass_obj
def explain(
    options: ClusterOptions, pod: str, namespace: str | None, system: str, output: str
) -> None:
    """Say in one sentence why a pod does not run, or how it does."""
    found = _run(options, lambda client: _explain(client, pod, namespace, system, options))
    if output == "json":
        emit_json(found)
        return
    click.echo(found.sentence)
    if found.hint:
        click.echo(f"  try: {found.hint}")
    for sentence in found.left_out:
        click.echo(sentence, err=True)


@kubectl.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
@cluster_options
@click.pass_obj
def uninstall(options: ClusterOptions, yes: bool, output: str) -> None:
    """Remove what moiety made in other namespaces: registration, templates, slices.

    Before `kubectl delete -k`, so that nothing is left. Pods that run keep their shares until the
    nodes' agents go.
    """
    if not yes:
        click.confirm("New pods will get no shares any more. Go on?", abort=True)
    gone = _run(options, _uninstall)
    if output == "json":
        emit_json(gone)
    else:
        click.echo(", ".join(f"{number} {kind}" for kind, number in gone.items()) + " removed")


def _run(options: ClusterOptions, work: Callable[[ApiClient], Awaitable[Any]]) -> Any:
    from moiety.cli.kube import must_have

    must_have(("aiohttp",))
    from moiety.kube.client import ApiClient

    async def body() -> Any:
        async with ApiClient(options.access(), patience_s=2) as client:
            return await work(client)

    return asyncio.run(body())


def _look(options: ClusterOptions, namespace: str | None, system: str) -> ClusterObjects:
    from moiety.kube.cluster_look import look

    def work(client: ApiClient) -> Awaitable[Any]:
        return look(client, system, options.typed(), namespace)

    found: ClusterObjects = _run(options, work)
    return found


def _show(seen: ClusterObjects, output: str) -> None:
    """Print the GPUs and pods, and name the agents that did not answer."""
    from moiety.kube import cluster_report

    if output == "json":
        emit_json(
            {
                "gpus": cluster_report.gpus(seen),
                "pods": cluster_report.pods(seen),
                "units": seen.units,
                "silent": seen.silent,
                "left_out": seen.left_out,
            }
        )
        return
    click.echo(_text(seen))
    for sentence in seen.left_out.values():
        click.echo(sentence, err=True)
    for node, why in sorted(seen.silent.items()):
        click.echo(f"RECEIVED and ALLOCATED on node {node} are not known: {why}", err=True)


def _gpus_text(seen: ClusterObjects) -> str:
    """A table of the GPUs, or of the units where nodes offer these instead."""
    from moiety.kube import cluster_report

    rows = cluster_report.gpus(seen)
    if rows:
        cells = [
            [
                row.node, row.device, row.model or "-", size(row.memory_bytes),
                f"{row.percent} %", size(row.promised_bytes), str(row.pods), row.trouble or "-",
            ]
            for row in rows
        ]  # fmt: skip
        return table(GPU_TITLES, cells)
    if not seen.units:
        return "no node offers GPUs (does moiety-node run on one?)"
    return table(
        UNIT_TITLES,
        [
            [
                each.node,
                each.resource,
                str(each.offered),
                "-" if each.used is None else str(each.used),
            ]
            for each in seen.units
        ],
    )


def _text(seen: ClusterObjects) -> str:
    from moiety.kube import cluster_report

    found = [] if "gpus" in seen.left_out else [_gpus_text(seen)]
    pods = cluster_report.pods(seen)
    if not pods:
        return "\n".join([*found, "no pod has a share, or waits for one"])
    cells = [
        [
            row.namespace, row.name, row.phase, row.node or "-", ",".join(row.gpus) or "-",
            "; ".join(row.asked.values()),
            "-" if row.received is None else f"{row.received:.0%}", size(row.allocated_bytes),
        ]
        for row in pods
    ]  # fmt: skip
    return "\n".join([*(f"{each}\n" for each in found), table(POD_TITLES, cells)])


async def _resize(
    client: ApiClient, pod: str, namespace: str | None, text: str, wait_s: float
) -> str | None:
    from moiety.kube import cluster_report
    from moiety.kube.client import PODS
    from moiety.kube.model import names

    namespace = namespace or client.access.namespace
    found = await _pod(client, pod, namespace)
    uid = found["metadata"]["uid"]
    shared = (found["metadata"].get("labels") or {}).get(names.SHARED)
    if not shared and not cluster_report.claim_keys(found) and not cluster_report.units_of(found):
        raise PodRefusal(pod, "it has no share of a GPU", f"kubectl moiety explain {pod}")
    before = (found["metadata"].get("annotations") or {}).get(names.RESIZE)
    wish = f"{before} " if before is not None and before.split() == text.split() else text
    notes = {names.RESIZE: wish}  # said again, it is tried again
    known = await _answers(client, pod, uid, namespace)
    await client.patch(PODS, pod, {"metadata": {"annotations": notes}}, namespace)
    until_s = time.monotonic() + wait_s
    while time.monotonic() < until_s:
        answers = await _answers(client, pod, uid, namespace)
        for name, note in answers.items():
            if name not in known and note.startswith(f"{wish.strip()}: "):
                return note.removeprefix(f"{wish.strip()}: ")
        await asyncio.sleep(LOOK_S)
    return None


async def _answers(client: ApiClient, pod: str, uid: str, namespace: str) -> dict[str, str]:
    """What nodes said about resizes of a pod: the notes of Events, by their names."""
    from moiety.kube.client import EVENTS

    listed, _ = await client.list(EVENTS, namespace, field_selector=f"regarding.name={pod}")
    return {
        each["metadata"]["name"]: each.get("note") or ""
        for each in listed
        if each["reason"] in RESIZES and each["regarding"].get("uid") == uid
    }


async def _pod(client: ApiClient, name: str, namespace: str) -> dict[str, Any]:
    from moiety.kube.client import PODS, ApiError

    try:
        return await client.get(PODS, name, namespace)
    except ApiError as no:
        if no.is_missing:
            hint = "-n with its namespace; kubectl get pods -A"
            raise PodRefusal(name, f"there is none in namespace {namespace}", hint) from None
        raise


async def _explain(
    client: ApiClient, pod: str, namespace: str | None, system: str, options: ClusterOptions
) -> Any:
    from moiety.kube import explain as explaining
    from moiety.kube.client import CONFIG_MAPS, EVENTS, NAMESPACES, ApiError
    from moiety.kube.cluster_gpus import of
    from moiety.kube.cluster_look import look
    from moiety.kube.dialects.request import RequestRefused
    from moiety.kube.model import names
    from moiety.kube.webhook import webhook_config
    from moiety.kube.webhook.namespace_dialects import opted_in

    namespace = namespace or client.access.namespace
    found = await _pod(client, pod, namespace)
    seen = await look(client, system, options.typed(), namespace)
    try:
        events, _ = await client.list(
            EVENTS, namespace, field_selector=f"regarding.uid={found['metadata']['uid']}"
        )
    except ApiError:
        events = []
    maps = []
    for name in (names.SETTINGS, names.SIZES):
        try:
            maps.append((await client.get(CONFIG_MAPS, name, system)).get("data") or {})
        except ApiError:
            maps.append({})
    cluster = webhook_config.read(maps[0], maps[1], of(dict(each) for each in seen.slices)).cluster
    config = cluster.config
    try:
        config = opted_in(await client.get(NAMESPACES, namespace), config)
    except (ApiError, RequestRefused):
        pass
    return explaining.explain(found, seen, events, config)


async def _uninstall(client: ApiClient) -> dict[str, int]:
    from moiety.kube.client import SLICES, ApiError
    from moiety.kube.model.share_config import DRIVER
    from moiety.kube.webhook import registration, template_gc

    gone = {"registrations": 0, "templates": 0, "slices": 0}
    for resource in (registration.MUTATING, registration.VALIDATING):
        try:
            await client.get(resource, registration.NAME)
        except ApiError as no:
            if no.is_missing:
                continue
            raise
        await client.delete(resource, registration.NAME)
        gone["registrations"] += 1
    try:
        gone["templates"] = await template_gc.remove_all(client)
        slices, _ = await client.list(SLICES, field_selector=f"spec.driver={DRIVER}")
    except ApiError as no:
        if not no.is_missing:
            raise
        return gone
    for each in slices:
        await client.delete(SLICES, each["metadata"]["name"])
        gone["slices"] += 1
    return gone


def main() -> None:
    """Run `kubectl moiety`; never returns."""
    from moiety.cli.main import run

    run(kubectl, "kubectl moiety")
