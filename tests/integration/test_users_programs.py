"""Unmodified programs of two users on one GPU, which its agent divides between them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.many_gpus import GPUS, PROGRAMS
from moiety.model import errors
from moiety.testing.waiting import until
from tests.support.users import ALICE, BOB, Raised, open_folder
from tests.support.users_programs import AGENT, MIB, WAIT, Setting

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]


@pytest.fixture
def setting(native: Path, programs: Path) -> Iterator[Setting]:
    with open_folder() as folder:
        made = Setting(folder, native, [programs / "worker"])
        with made.agent:
            yield made


def test_two_users_share_a_gpu_and_see_no_more_of_each_other_than_that(setting: Setting) -> None:
    with ExitStack() as stack:
        alice = stack.enter_context(setting.user(ALICE))
        bob = stack.enter_context(setting.user(BOB))
        # Given two programs that do not fit together
        for user in (alice, bob):
            setting.begin(user, "run", *setting.worker(60 * MIB, 1_000_000))
        rows = until(
            lambda: [r for r in setting.agent.ps() if r.evicted_bytes > 60 * MIB][1:], "turns"
        )
        assert rows
        # when one of them looks, it sees its own program, and that the other has one,
        looker = stack.enter_context(setting.user(BOB))
        code, out, err = setting.moiety(looker, "ps", "-o", "json")
        assert code == 0, err
        seen: dict[int, Any] = {row["uid"]: row for row in json.loads(out)}
        assert seen[BOB]["program"] == "worker"
        assert (seen[ALICE]["program"], seen[ALICE]["pid"]) == ("", 0)
        assert seen[ALICE]["allocated_bytes"] >= 60 * MIB
        # and cannot end the agent.
        code, _, err = setting.moiety(looker, "stop", "--force")
        assert code == errors.NotAllowed.exit_code
        assert "only root may end this agent" in err
        # Then both end with all their bytes as they should be.
        for user in (alice, bob):
            user.do("os.kill(pid, 10)")
        for user in (alice, bob):
            assert user.do(WAIT) == 0, setting.said(user, "err")
            assert f"shared by this machine's agent, {setting.agent.directory.path}" in (
                setting.said(user, "err")
            )


def test_an_agent_of_ones_own_leaves_the_systems_gpu_alone(setting: Setting) -> None:
    with setting.user(ALICE) as alice:
        alice.do(f"os.environ['XDG_RUNTIME_DIR'] = {str(setting.folder / 'out')!r}")
        code, _, err = setting.moiety(alice, "agent", "start", "--foreground")
        assert code == errors.GpuOwned.exit_code, err
        assert setting.agent.process
        assert f"pid {setting.agent.process.pid}, user root" in err
        assert "MOIETY_AGENT=system" in err


def test_an_agent_need_not_be_root(native: Path, programs: Path) -> None:
    with open_folder() as folder, ExitStack() as stack:
        setting = Setting(folder, native, [programs / "worker"])
        path = setting.agent.directory.path
        path.mkdir()
        os.chown(path, AGENT, AGENT)  # as a service manager makes it
        theirs = setting.user(AGENT)
        stack.enter_context(theirs)
        stack.callback(theirs.do, "os.kill(pid, 9)")
        setting.begin(theirs, "agent", "start", "--foreground", *setting.agent.arguments)
        until(setting.agent.directory.control.exists, "the agent")
        alice = stack.enter_context(setting.user(ALICE))
        bob = stack.enter_context(setting.user(BOB))
        for user in (alice, bob):
            setting.begin(user, "run", *setting.worker(60 * MIB, 1_000_000))
        rows = until(
            lambda: [r for r in setting.agent.ps() if r.evicted_bytes > 60 * MIB][1:], "turns"
        )
        assert rows
        looker = stack.enter_context(setting.user(BOB))
        workload = next(r for r in setting.agent.ps() if r.uid == ALICE).workload
        socket = str(setting.agent.directory.workloads / workload / "shim.sock")
        with pytest.raises(Raised, match="Permission"):
            looker.do(f"Shim({socket!r}, connect=False).connect(0)")
        code, _, err = setting.moiety(looker, "stop", "--force")
        assert code == errors.NotAllowed.exit_code
        assert f"only root and {AGENT} may end this agent" in err
        for user in (alice, bob):
            user.do("os.kill(pid, 10)")
        for user in (alice, bob):
            assert user.do(WAIT) == 0, setting.said(user, "err")


def test_commands_on_what_is_anothers_say_what_to_try(setting: Setting) -> None:
    with ExitStack() as stack:
        alice = stack.enter_context(setting.user(ALICE))
        setting.begin(alice, "run", "--name", "secret", *setting.worker(60 * MIB, 1_000_000))
        row = until(lambda: next((r for r in setting.agent.ps() if r.gpu is not None), None), "it")
        assert row is not None
        bob = stack.enter_context(setting.user(BOB))
        number, pid = str(row.tenant), str(row.pid)
        # What bob sees is alice's, and the command says who may do it.
        for command in ("kill", "inspect", "wait", "set"):
            more = ["--gpu", "0.1"] if command == "set" else []
            code, _, err = setting.moiety(bob, command, number, *more)
            assert (code, err.count("\n")) == (errors.NotAllowed.exit_code, 2), err
            assert f"{number} is a program of {ALICE}\n  try: one of your own" in err
            assert "root" in err
            # What bob does not see is as if it were not there.
            for hidden in (pid, "secret", row.workload):
                code, _, err = setting.moiety(bob, command, hidden, *more)
                assert code == errors.WorkloadUnknown.exit_code, err
                assert f"no program that shares the GPUs is '{hidden}'\n  try: " in err
        for words in (["gpu", "drain", "0"], ["gpu", "resume", "0"], ["agent", "restart"]):
            code, _, err = setting.moiety(bob, *words)
            assert code == errors.NotAllowed.exit_code, err
            assert "moiety: only root may " in err
            assert "\n  try: do it as root" in err
        code, out, _ = setting.moiety(bob, "ps", "--user", str(ALICE), "-q")
        assert (code, out) == (0, f"{number}\n")
        code, _, err = setting.moiety(bob, "ps", "--user", "nosuchuser")
        assert code == errors.UserUnknown.exit_code, err
        assert all(r.program == "secret" for r in setting.agent.ps()), "it goes on"
        alice.do("os.kill(pid, 10)")
        assert alice.do(WAIT) == 0, setting.said(alice, "err")


def test_where_names_are_shown_the_kernel_says_who_may_end_a_program(
    native: Path, programs: Path
) -> None:
    with open_folder() as folder, ExitStack() as stack:
        setting = Setting(folder, native, [programs / "worker"])
        file = folder / "config.toml"
        file.write_text('[agent]\nvisible = "all"\n')
        setting.agent.environment["MOIETY_CONFIG"] = str(file)
        stack.enter_context(setting.agent)
        alice = stack.enter_context(setting.user(ALICE))
        setting.begin(alice, "run", "--name", "open", *setting.worker(60 * MIB, 1_000_000))
        row = until(lambda: next((r for r in setting.agent.ps() if r.gpu is not None), None), "it")
        assert row is not None
        bob = stack.enter_context(setting.user(BOB))
        for target in ("open", str(row.pid), str(row.tenant)):
            code, _, err = setting.moiety(bob, "kill", target)
            assert code == errors.NotAllowed.exit_code, err
            assert f"is a program of {ALICE}\n  try: one of your own" in err
            assert setting.moiety(bob, "set", target, "--gpu", "0.1")[0] == code
        code, out, err = setting.moiety(bob, "inspect", "open")
        assert (code, out.splitlines()[0][:5]) == (0, "open "), err
        alice.do("os.kill(pid, 10)")
        assert alice.do(WAIT) == 0, setting.said(alice, "err")


def test_sixteen_unequal_programs_of_four_users_get_gpus_that_keep_their_shares(
    native: Path, programs: Path
) -> None:
    names = list(dict.fromkeys(program.user for program in PROGRAMS))
    uids = {name: ALICE + number for number, name in enumerate(names)}
    gpu = f"{GPUS}xA100-80:memory=96MiB,link=8GB/s,residue=2MiB"
    with open_folder() as folder, ExitStack() as stack:
        setting = Setting(folder, native, [programs / "worker"], gpu=gpu)
        stack.enter_context(setting.agent)

        def chosen(said: Path) -> bool:
            return said.exists() and "moiety: it gets GPU" in said.read_text()

        began = [stack.enter_context(setting.user(uids[program.user])) for program in PROGRAMS]
        for user, program in zip(began, PROGRAMS, strict=True):
            options = ["--name", program.name, "--gpu", str(program.share)]
            setting.begin(user, "run", *options, *setting.worker(MIB, 1_000_000))
            until(partial(chosen, folder / "out" / f"{user.pid}.err"), "its GPU is chosen")

        def placed() -> dict[int, Any]:
            rows = [row for row in setting.agent.ps() if row.gpu is not None]
            return {row.pid: row for row in rows} if len(rows) == len(PROGRAMS) else {}

        rows = until(placed, "each has its GPU")
        promised = dict.fromkeys(range(GPUS), 0.0)
        for user, program in zip(began, PROGRAMS, strict=True):
            row = rows[int(user.do("str(pid)"))]
            assert (row.program, row.uid, row.share.gpu) == (program.name, user.uid, program.share)
            assert f"moiety: it gets GPU {row.gpu} (" in setting.said(user, "err")
            promised[row.gpu] += program.share
        assert all(0 < part <= 1.0 + 1e-9 for part in promised.values()), promised
        looker = stack.enter_context(setting.user(uids["ann"]))
        code, out, err = setting.moiety(looker, "ps", "-o", "json")
        seen = [row["program"] for row in json.loads(out)]
        assert (code, sorted(seen)) == (0, [""] * 12 + ["notebook"] + ["train"] * 3), err
        for user in began:
            user.do("os.kill(pid, 10)")
        for user in began:
            assert user.do(WAIT) == 0, setting.said(user, "err")
