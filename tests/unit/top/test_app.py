"""The screen, driven by keys: what it shows, and that it outlives its agent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from textual.app import App
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from moiety.agent.control.protocol import NodeStatus
from moiety.agent.control.rows import GpuRow, ProcessRow
from moiety.devices.telemetry import Telemetry
from moiety.model.errors import NotAllowed
from moiety.model.share import Share
from moiety.top.app import Top
from moiety.top.rows import NARROW
from moiety.top.sample import Look

MIB = 1 << 20


def status(pid: int = 1) -> NodeStatus:
    gpu = GpuRow(
        0, "GPU-0", "Paper GPU", 120 * MIB, 0, 100 * MIB, 60 * MIB, 60 * MIB, 0, 40 * MIB, 0.5,
        [1], [2],
    )  # fmt: skip
    return NodeStatus(pid, "0.1", "550", 1.0, True, False, 0, 2, 2, [gpu])


def rows(*resident: int) -> list[ProcessRow]:
    return [
        ProcessRow(
            n, 4700 + n, f"program-{n}", "w", 0, "holding", amount, amount, 0, None, n, 0.0, 0.0,
            None, "", "",
        )
        for n, amount in enumerate(resident, start=1)
    ]  # fmt: skip


class Screen:
    """A running screen whose looks the test decides."""

    def __init__(self, pilot: Pilot[None], app: Top, looks: list[Look]) -> None:
        self.pilot, self.app, self.looks = pilot, app, looks
        self.killed: list[ProcessRow] = []
        self.told: list[str] = []

    async def shows(self, look: Look) -> None:
        self.looks[:] = [look]
        await self.app.look_again()
        await self.pilot.pause()

    async def press(self, key: str) -> None:
        await self.pilot.press(key)
        await self.pilot.pause()

    def text(self, part: str) -> str:
        return str(self.app.query_one(part, Static).render())

    def column(self, number: int) -> list[str]:
        table = self.app.query_one(DataTable)
        return [str(table.get_row_at(i)[number]) for i in range(table.row_count)]


def on_screen(scene: Callable[[Screen], Awaitable[None]], first: Look, width: int = 150) -> None:
    looks = [first]

    async def play() -> None:
        def kill(row: ProcessRow) -> str:
            screen.killed.append(row)
            if row.pid == FOREIGN:
                raise NotAllowed("it is another user's")
            return f"ended {row.pid}"

        app = Top(lambda: looks[0], lambda found: f"agent {found.pid}", kill, interval_s=3600.0)
        async with app.run_test(size=(width, 30)) as pilot:
            await pilot.pause()
            screen = Screen(pilot, app, looks)
            app.notify = lambda text, **_: screen.told.append(text)  # type: ignore[method-assign]
            await screen.shows(first)
            await scene(screen)

    asyncio.run(play())


FOREIGN = 4702
"""The pid of a program that may not be ended."""
SEEN = Look(1.0, status(), rows(20 * MIB, 40 * MIB))


def test_gpus_and_tenants_are_there() -> None:
    async def scene(screen: Screen) -> None:
        assert "agent 1" in screen.text("#agent")
        assert "GPU 0 Paper GPU" in screen.text("#gpus")
        assert "60 MiB of 100 MiB, 50% busy, 1 waiting" in screen.text("#gpus")
        assert screen.column(2) == ["program-1", "program-2"]

    on_screen(scene, SEEN)


def test_no_colour_means_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scene(screen: Screen) -> None:
        assert re.search(r" 1{10,}2{20,}\.{20,}  60 MiB", screen.text("#gpus"))

    on_screen(scene, SEEN)


def test_s_sorts_by_the_next_column() -> None:
    async def scene(screen: Screen) -> None:
        await screen.press("s")
        assert screen.app.order == "resident"
        assert screen.column(0) == ["2", "1"]
        assert "by resident" in screen.text("#agent")

    on_screen(scene, SEEN)


def test_p_lets_it_stand_still_and_go_on() -> None:
    async def scene(screen: Screen) -> None:
        await screen.press("p")
        await screen.shows(Look(2.0, status(), rows(1)))
        assert "paused" in screen.text("#agent")
        assert len(screen.column(0)) == 2
        await screen.press("p")
        await screen.shows(Look(3.0, status(), rows(1)))
        assert len(screen.column(0)) == 1

    on_screen(scene, SEEN)


def test_an_agent_that_ends_and_comes_back_is_said() -> None:
    async def scene(screen: Screen) -> None:
        await screen.shows(Look(2.0, problem="no agent is running, so no GPU is shared"))
        assert "no agent is running" in screen.text("#agent")
        assert "waiting for one" in screen.text("#agent")
        assert screen.column(0) == []
        await screen.shows(Look(3.0, status(pid=2), rows(1)))
        assert "the agent was started again (pid 2)" in screen.text("#agent")
        await screen.shows(Look(60.0, status(pid=2), rows(1)))
        assert "started again" not in screen.text("#agent")

    on_screen(scene, SEEN)


def test_q_ends_it() -> None:
    ended: list[App[None]] = []

    async def scene(screen: Screen) -> None:
        await screen.press("q")
        assert not screen.app.is_running or screen.app._exit
        ended.append(screen.app)

    on_screen(scene, SEEN)
    assert ended


def test_two_hundred_tenants_are_scrolled_not_lost() -> None:
    async def scene(screen: Screen) -> None:
        assert len(screen.column(0)) == 200
        table = screen.app.query_one(DataTable)
        table.scroll_to(0, 50, animate=False)
        await screen.pilot.pause()
        await screen.shows(Look(2.0, status(), rows(*[MIB] * 200)))
        assert table.scroll_offset.y == 50

    on_screen(scene, Look(1.0, status(), rows(*[MIB] * 200)))


def test_eighty_columns_keep_what_matters() -> None:
    async def scene(screen: Screen) -> None:
        table = screen.app.query_one(DataTable)
        assert [column.value for column in table.columns] == list(NARROW)
        assert table.virtual_size.width <= 80
        assert screen.column(2) == ["somebody", "somebody"]
        assert screen.column(5) == ["30 %", "30 %"]

    long = [
        msgspec.structs.replace(
            row, program="p" * 40, user="somebody-else", share=Share(0.3, 0.5), state="restoring"
        )
        for row in rows(20 * MIB, 1000 << 30)
    ]
    on_screen(scene, Look(1.0, status(), long), width=80)


def test_eight_gpus_have_a_line_each_on_eighty_columns() -> None:
    (gpu,) = status().gpus
    hot = Telemetry(temperature_c=91, power_w=312.0)
    gpus = [
        msgspec.structs.replace(
            gpu, gpu=n, name="NVIDIA A100-SXM4-80GB (simgpu)", capacity_bytes=83 << 30,
            resident_bytes=79 << 30, sensors=hot, waiting=[1] * n,
        )
        for n in range(8)
    ]  # fmt: skip

    async def scene(screen: Screen) -> None:
        lines = screen.text("#gpus").split("\n")
        assert [line[:20] for line in lines] == [f"GPU {n} A100-SXM4-80GB" for n in range(8)]
        assert max(map(len, lines)) <= 78
        assert lines[0].endswith("79 GiB of 83 GiB, 50% busy, 91 C, 312 W")
        assert lines[7].endswith("79 GiB of 83 GiB, 50% busy, 91 C, 7 waiting")
        assert screen.app.query_one("#gpus").size.height == 8
        assert screen.app.query_one("#cards").size.height >= 8, "all are seen"
        await screen.press("h")
        screen.app.query_one("#cards", VerticalScroll).focus()
        await screen.press("end")
        assert screen.app.query_one("#cards").scroll_offset.y > 0, "the rest can be scrolled to"

    look = Look(1.0, msgspec.structs.replace(status(), gpus=gpus), rows(20 * MIB))
    on_screen(scene, look, width=80)


def test_a_text_filters_and_escape_shows_all() -> None:
    async def scene(screen: Screen) -> None:
        await screen.press("/")
        for key in "M-2":
            await screen.press({"-": "minus"}.get(key, key))
        await screen.press("enter")
        assert screen.column(2) == ["program-2"]
        assert "only 'M-2'" in screen.text("#agent")
        await screen.press("escape")
        assert len(screen.column(2)) == 2

    on_screen(scene, SEEN)


def test_h_draws_the_last_hour() -> None:
    async def scene(screen: Screen) -> None:
        assert "history" not in screen.text("#gpus")
        await screen.press("h")
        assert "GPU 0 has no history yet" in screen.text("#gpus")

    on_screen(scene, SEEN)


def test_k_ends_the_chosen_program_after_a_question() -> None:
    async def scene(screen: Screen) -> None:
        await screen.press("k")
        assert "SIGTERM to program-1 (pid 4701)?" in screen.text("#question")
        for refusal in ("n", "escape"):
            await screen.press(refusal)
            assert not screen.app.query_one("#question").display
            await screen.press("y")
            assert screen.killed == [], "an answer without a question"
            await screen.press("k")
        await screen.press("y")
        assert [row.pid for row in screen.killed] == [4701]
        assert screen.told == ["ended 4701"]
        assert not screen.app.query_one("#question").display

    on_screen(scene, SEEN)


def test_the_cursor_and_the_question_stay_with_their_program() -> None:
    async def scene(screen: Screen) -> None:
        await screen.press("down")
        await screen.press("s")
        assert screen.column(0) == ["2", "1"]
        await screen.press("k")
        await screen.shows(Look(2.0, status(), rows(50 * MIB, 40 * MIB)))
        assert screen.column(0) == ["1", "2"]
        assert "program-2" in screen.text("#question")
        await screen.press("y")
        assert [row.pid for row in screen.killed] == [FOREIGN]
        assert "it is another user's" in screen.told[0]

    on_screen(scene, SEEN)


def test_k_on_an_empty_screen_asks_nothing() -> None:
    async def scene(screen: Screen) -> None:
        await screen.press("k")
        assert not screen.app.query_one("#question").display

    on_screen(scene, Look(1.0, status()))
