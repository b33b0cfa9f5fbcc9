"""Several kubeconfigs are one, as kubectl has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moiety.kube import kubeconfig
from moiety.kube.kubeconfig import select


def config(
    name: str, *, server: str = "http://s", current: str = "", **user: Any
) -> dict[str, Any]:
    return {
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": user}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}
        ],
    } | ({"current-context": current} if current else {})


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(content))
    return path


def test_the_first_file_that_has_an_entry_counts_for_all_of_it(tmp_path: Path) -> None:
    one = write(tmp_path / "one", config("a", server="http://one", token="t"))
    two = write(
        tmp_path / "two",
        config("a", server="http://two", password="p", username="u", current="a"),
    )
    found = select([one, two])
    assert found.cluster == {"server": "http://one"}
    assert found.user == {"token": "t"}
    assert select([two, one]).cluster == {"server": "http://two"}


def test_the_first_current_context_counts_and_another_one_can_be_named(tmp_path: Path) -> None:
    one = write(tmp_path / "one", config("a", current="b"))
    two = write(tmp_path / "two", config("b", current="a"))
    assert select([one, two]).namespace == "ns-b"
    assert select([two, one]).namespace == "ns-a"
    assert select([one, two], "a").namespace == "ns-a"
    with pytest.raises(ValueError, match="there is no 'c' among its contexts; there are a, b"):
        select([one, two], "c")


def test_the_files_of_the_variable_count_as_far_as_they_exist(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, {}) for name in ("one", "two"))
    listed = f"{one}::{tmp_path / 'none'}:{two}"
    assert kubeconfig.files({"KUBECONFIG": listed}) == [one, two]
    assert kubeconfig.files({"KUBECONFIG": str(tmp_path / "none")}) == []


def test_a_relative_path_begins_at_the_file_that_it_is_written_in(tmp_path: Path) -> None:
    user: dict[str, Any] = {
        "client-key": "pki/key",
        "exec": {"command": "./sign-in"},
        "tokenFile": "/abs/token",
    }
    content = config("a", current="a", **user)
    content["clusters"][0]["cluster"]["certificate-authority"] = "pki/ca"
    other = config("b")
    other["users"][0]["user"] = {"exec": {"command": "aws"}}
    found = select([write(tmp_path / "x" / "one", content), write(tmp_path / "two", other)])
    assert found.cluster["certificate-authority"] == str(tmp_path / "x" / "pki" / "ca")
    assert found.user["client-key"] == str(tmp_path / "x" / "pki" / "key")
    assert found.user["tokenFile"] == "/abs/token"
    assert Path(found.user["exec"]["command"]) == tmp_path / "x" / "sign-in"
    assert select([tmp_path / "two"], "b").user["exec"]["command"] == "aws"


def test_yaml_is_read_and_what_is_none_is_said(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "clusters: [{name: a, cluster: {server: http://s}}]\n"
        "contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
    )
    found = select([file])
    assert (found.user, found.namespace) == ({}, "default")
    file.write_text("a: [")
    with pytest.raises(ValueError, match="it is no YAML"):
        select([file])
