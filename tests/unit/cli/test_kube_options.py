from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from moiety.cli.kube_options import ClusterOptions, cluster_options
from moiety.model.errors import ClusterRefusal
from moiety.testing.kube_node import kubeconfig


@click.group()
@cluster_options
@click.pass_context
def group(ctx: click.Context) -> None:
    """Any group."""
    ctx.ensure_object(ClusterOptions)


@group.command()
@cluster_options
@click.pass_obj
def show(options: ClusterOptions) -> None:
    """Any command of it."""
    click.echo(" ".join(options.typed()))


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("show", ""),
        ("--context a show", "--context a"),
        ("show --context a", "--context a"),
        ("--context a show --context b", "--context b"),
        ("--kubeconfig f show --as jane", "--kubeconfig f --as jane"),
        (
            "show --as-group x --as jane --as-group y --as-uid 7",
            "--as jane --as-uid 7 --as-group x --as-group y",
        ),
    ],
)
def test_options_count_before_and_after_the_command(typed: str, kept: str) -> None:
    assert CliRunner().invoke(group, typed.split()).stdout == f"{kept}\n"


def test_a_sign_in_program_runs_once_for_several_looks(tmp_path: Path) -> None:
    config = kubeconfig("http://10.0.0.1")
    config["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./sign-in",
            "interactiveMode": "Never",
        }
    }
    (tmp_path / "config").write_text(json.dumps(config))
    options = ClusterOptions(str(tmp_path / "config"))
    first = options.access()
    assert first.session is not None
    assert options.access().session is first.session


def test_they_say_where_and_as_what_user(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(json.dumps(kubeconfig("http://10.0.0.1")))
    found = ClusterOptions(str(file), as_user="jane", as_group=("dev",)).access()
    assert found.server == "http://10.0.0.1"
    assert found.impersonation == (("Impersonate-User", "jane"), ("Impersonate-Group", "dev"))
    with pytest.raises(ClusterRefusal, match="there is no 'b' among its contexts"):
        ClusterOptions(str(file), "b").access()
