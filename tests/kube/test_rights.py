"""What moiety's accounts may do: what is listed and no more, and a node nothing to other nodes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from moiety.kube.resource_slices import slices
from tests.kube.bed import Bed
from tests.kube.objects import pod
from tests.kube.programs import NODE_NAME
from tests.kube.sharing import ROOT, SYSTEM, Sharing

RIGHTS: Final = yaml.safe_load((ROOT / "deploy" / "rights.yaml").read_text())
OTHER: Final = "other-node"
ROW: Final = re.compile(r"^([^\s[]*)\s*\[([^]]*)\]\s+\[([^]]*)\]\s+\[([^]]*)\]$")
pytestmark = pytest.mark.usefixtures("sharing")
Rights = dict[str, list[str]]


def listed(bed: Bed, account: str, namespace: str) -> Rights:
    """What `kubectl auth can-i --list` says of an account: verbs by resource and name."""
    who = f"--as=system:serviceaccount:{SYSTEM}:{account}"
    found: dict[str, set[str]] = {}
    for line in bed.kubectl("auth", "can-i", "--list", who, "-n", namespace).splitlines()[1:]:
        row = ROW.match(line.strip())
        assert row, line
        resource, urls, names, verbs = row.groups()
        for name in names.split() or [""]:
            what = f"{resource or urls} {name}".strip()
            found.setdefault(what, set()).update(verbs.split())
    return {what: sorted(verbs) for what, verbs in found.items()}


@pytest.mark.parametrize("account", sorted(RIGHTS))
@pytest.mark.parametrize("namespace", ["default", SYSTEM])
def test_an_account_can_do_what_is_listed_and_no_more(
    bed: Bed, account: str, namespace: str
) -> None:
    usual = listed(bed, "no-such-account", namespace)
    own = {k: v for k, v in listed(bed, account, namespace).items() if usual.get(k) != v}
    wanted = RIGHTS[account]["everywhere"] | RIGHTS[account].get(namespace, {})
    assert own == {what: sorted(verbs) for what, verbs in wanted.items()}


@pytest.fixture
def other(bed: Bed) -> Iterator[str]:
    """The token of the account of nodes on a node that is not this one, and was lost."""
    bed.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": OTHER}})
    bound = ("--bound-object-kind=Node", f"--bound-object-name={OTHER}")
    yield bed.kubectl("create", "token", "moiety-node", "-n", SYSTEM, *bound).strip()
    bed.call("kubectl", "delete", "resourceslices", "--field-selector", f"spec.nodeName={OTHER}")
    bed.kubectl("delete", "node", OTHER)


def slice_of(bed: Bed, node: str, **spec: Any) -> str:
    """A slice without GPUs of a node, as JSON."""
    (made,) = slices(node, [], bed.get("node", node))
    made["spec"] |= spec
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    made["metadata"]["name"] = f"made-by-hand-{node}"
    return json.dumps(kind | made)


def as_node(
    bed: Bed, token: str, *arguments: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """kubectl with the token of a node, and nothing else."""
    address = bed.kubectl("config", "view", "--minify", "-o", "jsonpath={..server}").strip()
    alone = (f"--server={address}", "--insecure-skip-tls-verify", "--kubeconfig=/dev/null")
    return bed.call("kubectl", *alone, f"--token={token}", *arguments, stdin=stdin)


def test_a_lost_node_writes_no_slices_of_others(bed: Bed, sharing: Sharing, other: str) -> None:
    mine = as_node(bed, other, "create", "-f", "-", stdin=slice_of(bed, OTHER))
    assert mine.returncode == 0, mine.stderr

    (there,) = (each for each in bed.get("resourceslices")["items"]
                if each["spec"].get("nodeName") == NODE_NAME)  # fmt: skip
    there["spec"]["devices"] = []
    tries = [
        (("create", "-f", "-"), slice_of(bed, NODE_NAME)),
        (("create", "-f", "-"), slice_of(bed, OTHER, driver="gpu.nvidia.com").replace("by-", "x")),
        (("replace", "-f", "-"), json.dumps(there)),
        (("delete", "resourceslice", there["metadata"]["name"]), ""),
    ]
    for command, stdin in tries:
        done = as_node(bed, other, *command, stdin=stdin)
        assert done.returncode != 0, command
        assert "in its own pool" in done.stderr, done.stderr
    assert sharing.devices()


def test_a_token_that_names_no_node_writes_no_slices(bed: Bed) -> None:
    token = bed.kubectl("create", "token", "moiety-node", "-n", SYSTEM).strip()
    done = as_node(bed, token, "create", "-f", "-", stdin=slice_of(bed, NODE_NAME))
    assert done.returncode != 0
    assert "which names the node" in done.stderr


def test_a_node_changes_no_pods(bed: Bed, namespace: str, other: str) -> None:
    bed.apply(pod("somebody", "sleep", "60", namespace=namespace))
    change = json.dumps({"metadata": {"annotations": {"moiety.dev/resize": "gpu=1"}}})
    done = as_node(bed, other, "patch", "pod", "somebody", "-n", namespace, "-p", change)
    assert "forbidden" in done.stderr.lower()
    bed.kubectl("delete", "pod", "somebody", "-n", namespace, "--wait=false")
