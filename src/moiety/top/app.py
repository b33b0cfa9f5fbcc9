"""The full screen, drawn with textual."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Input, Static

from moiety.agent.control.protocol import NodeStatus
from moiety.agent.control.rows import GpuRow, ProcessRow
from moiety.model.errors import MoietyError
from moiety.top.history import drawn
from moiety.top.rows import (
    AMOUNTS,
    BAR_MIN,
    FREE,
    ORDERS,
    TITLES,
    bar,
    columns,
    gpu_name,
    gpu_words,
    matching,
    ordered,
    plain_bar,
    shown,
)
from moiety.top.sample import Look, Rates

COLOURS: Final = ("dark_orange", "dodger_blue2", "green3", "gold1", "orchid", "cyan3", "red3")
FRAME: Final = 4
"""Cells of a GPU's line that are empty: at both ends of the line, and two behind the bar."""
NEWS_S: Final = 10.0
"""How long the screen shows that the agent was started again."""


class Top(App[None]):
    """GPUs above, tenants below; `look` is asked every `interval_s`, in a thread of its own.

    `kill` ends the process of a row, returns what it did, and raises MoietyError.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #agent { height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; }
    #cards { height: auto; max-height: 50%; padding: 1 1; }
    #gpus { height: auto; text-wrap: nowrap; }
    #tenants { height: 1fr; }
    #filter { display: none; }
    #question { display: none; height: 1; padding: 0 1; background: $warning; color: $text; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "Quit"),
        ("p", "pause", "Pause"),
        ("s", "sort", "Sort"),
        ("slash", "filter", "Filter"),
        ("escape", "unfilter", "All"),
        ("h", "history", "History"),
        ("k", "kill", "Kill"),
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("n", "answer(False)", "No", show=False),
    ]

    def __init__(
        self,
        look: Callable[[], Look],
        headline: Callable[[NodeStatus], str],
        kill: Callable[[ProcessRow], str],
        interval_s: float = 1.0,
    ) -> None:
        super().__init__()
        self._look = look
        self._headline = headline
        self._kill = kill
        self._interval_s = interval_s
        self._rates = Rates()
        self._now: Look | None = None
        self._looking = False
        self._agent_pid = 0
        self._news_until_s = 0.0
        self._lost = False
        self.paused = False
        self.order = ORDERS[0]
        self.filter = ""
        """Only programs and users with this text are shown."""
        self.shows_history = False
        self._titles: tuple[str, ...] = ()
        self._shown: list[ProcessRow] = []
        """The rows on the screen, from above."""
        self._asked: ProcessRow | None = None
        """The program that the open question is about; None: there is no question."""

    def compose(self) -> ComposeResult:
        """The parts of the screen, from above."""
        yield Static("asking the agent", id="agent")
        yield VerticalScroll(Static(id="gpus"), id="cards")
        table: DataTable[Text] = DataTable(id="tenants", cursor_type="row", zebra_stripes=True)
        yield table
        yield Static(id="question", markup=False)
        yield Input(placeholder="a program or a user", id="filter")
        yield Footer()

    async def on_mount(self) -> None:
        """Look now, and then regularly."""
        self.query_one("#tenants").focus()
        self.set_interval(self._interval_s, self.look_again)
        self.call_later(self.look_again)

    async def look_again(self) -> None:
        """Ask the agent and draw, unless paused or another request is open."""
        if self.paused or self._looking:
            return
        self._looking = True
        try:
            now = await asyncio.to_thread(self._look)
        finally:
            self._looking = False
        if not self.paused:
            self._take(now)
            self.draw()

    def on_resize(self) -> None:
        """Draw the bars again in the new width."""
        self.draw()

    def action_pause(self) -> None:
        """Pause the screen, or go on."""
        self.paused = not self.paused
        self.draw()

    def action_sort(self) -> None:
        """Switch to the next order."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self.draw()

    def action_history(self) -> None:
        """Draw the last hour of each GPU, or stop drawing it."""
        self.shows_history = not self.shows_history
        self.draw()

    def action_filter(self) -> None:
        """Ask for a text."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    def action_unfilter(self) -> None:
        """Leave an open question unanswered, else show all tenants again."""
        if self._asked is not None:
            self._ask(None)
        else:
            self._filter_by("")

    def action_kill(self) -> None:
        """Ask whether to end the program under the cursor."""
        at = self.query_one("#tenants", DataTable).cursor_row
        if at < len(self._shown):
            self._ask(self._shown[at])

    async def action_answer(self, yes: bool) -> None:
        """End the program of the open question, or not."""
        chosen = self._asked
        self._ask(None)
        if chosen is None or not yes:
            return
        try:
            self.notify(await asyncio.to_thread(self._kill, chosen), markup=False)
        except MoietyError as error:
            self.notify(error.render(), severity="error", markup=False)

    def _ask(self, row: ProcessRow | None) -> None:
        self._asked = row
        line = self.query_one("#question", Static)
        line.display = row is not None
        if row is not None:
            whose = f" of {row.user}" if row.user else ""
            line.update(f"Send SIGTERM to {row.program} (pid {row.pid}){whose}? y: yes, n: no")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Show only what has the text that was typed."""
        self._filter_by(event.value)

    def _filter_by(self, text: str) -> None:
        self.filter = text.strip()
        box = self.query_one("#filter", Input)
        box.value, box.display = self.filter, False
        self.query_one("#tenants").focus()
        self.draw()

    def _take(self, now: Look) -> None:
        if now.status is None:
            self._lost = self._lost or self._agent_pid != 0
        else:
            if self._agent_pid not in (0, now.status.pid) or self._lost:
                self._news_until_s = now.at_s + NEWS_S
            self._agent_pid, self._lost = now.status.pid, False
        self._rates.take(now)
        self._now = now

    def draw(self) -> None:
        """Show the last look."""
        now = self._now
        if now is None or not self.is_running:
            return
        self.query_one("#agent", Static).update(self._head(now))
        lines = []
        for line, gpu in zip(self._gpu_lines(now), self._gpus(now), strict=True):
            lines.append(line)
            if self.shows_history:
                lines += [Text(text, no_wrap=True) for text in drawn(gpu)]
        self.query_one("#gpus", Static).update(Text("\n").join(lines))
        table = self.query_one("#tenants", DataTable)
        at, cursor = table.scroll_offset, table.cursor_row
        chosen = _key(self._shown[cursor]) if cursor < len(self._shown) else None
        titles = columns(self.size.width)
        table.clear(columns=titles != self._titles)
        if titles != self._titles:
            self._titles = titles
            for title in titles:
                table.add_column(_cell(title, title, ""), key=title)
        self._shown = ordered(matching(now.rows, self.filter), self.order, self._rates)
        for row in self._shown:
            colour = self._colour(row.tenant)
            texts = zip(titles, shown(row, self._rates, titles), strict=True)
            table.add_row(*(_cell(title, text, colour) for title, text in texts))
        keys = [_key(row) for row in self._shown]
        cursor = keys.index(chosen) if chosen in keys else cursor
        table.move_cursor(row=cursor, animate=False, scroll=False)
        table.scroll_to(at.x, at.y, animate=False)

    def _gpus(self, now: Look) -> list[GpuRow]:
        return now.status.gpus if now.status else []

    def _head(self, now: Look) -> Text:
        marks = [f"by {self.order}"] + ["paused"] * self.paused
        marks += [f"only {self.filter!r}"] * bool(self.filter)
        if now.status is None:
            text = f"{now.problem}; waiting for one" if self._lost else now.problem
            return Text(f"{text}  [{', '.join(marks)}]", style="bold")
        if now.at_s < self._news_until_s:
            marks.append(f"the agent was started again (pid {now.status.pid})")
        return Text(f"{', '.join(marks)}  |  {self._headline(now.status)}", no_wrap=True)

    def _gpu_lines(self, now: Look) -> list[Text]:
        """One line for each GPU; the longest words decide how much is left for the bars."""
        gpus = self._gpus(now)
        names = [gpu_name(gpu, self.size.width) for gpu in gpus]
        room = self.size.width - FRAME - max(map(len, names), default=0)
        words = [gpu_words(gpu, room - BAR_MIN) for gpu in gpus]
        width = max(BAR_MIN, room - max(map(len, words), default=0))
        return [
            self._gpu_line(Text(name, no_wrap=True), bar(gpu, now.rows, width), text)
            for name, gpu, text in zip(names, gpus, words, strict=True)
        ]

    def _gpu_line(self, line: Text, parts: Sequence[tuple[int, int]], words: str) -> Text:
        if os.environ.get("NO_COLOR"):
            line.append(plain_bar(parts))
        else:
            for tenant, size in parts:
                if tenant == FREE:
                    line.append("·" * size, style="dim")
                else:
                    label = str(tenant)[:size].ljust(size)
                    line.append(label, style=f"black on {self._colour(tenant)}")
        return line.append(f"  {words}")

    def _colour(self, tenant: int) -> str:
        return COLOURS[tenant % len(COLOURS)]


def _key(row: ProcessRow) -> tuple[str, int, int | None]:
    """What stays the same of a row from look to look."""
    return row.workload, row.tenant, row.gpu


def _cell(title: str, text: str, colour: str) -> Text:
    """A cell of a column: amounts are right-aligned, the tenant's number has its colour."""
    style = colour if title == TITLES[0] else ""
    return Text(text, style=style, justify="right" if title in AMOUNTS else "left")
