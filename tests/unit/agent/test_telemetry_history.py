"""The sensors' last hour: means of minutes, gaps where nothing was read, and few readings."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from structlog.testing import CapturingLogger

from moiety.agent.monitor.telemetry_history import EVERY_S, FRESH_S, SLOT_S, SLOTS, Series
from moiety.agent.monitor.telemetry_history import TelemetryHistory as History
from moiety.arbiter.settings import Settings
from moiety.devices.telemetry import Telemetry
from tests.support.virtual_agent import World


def test_a_minute_is_the_mean_of_its_readings_and_the_oldest_is_dropped() -> None:
    series = Series()
    for at_s, value in ((0.0, 1.0), (20.0, 3.0), (60.0, None), (125.0, 5.0)):
        series.add(at_s, value)
    assert series.read(125.0)[-3:] == [2.0, None, 5.0]
    assert series.read(125.0 + SLOT_S)[-2:] == [5.0, None]
    later = series.read(125.0 + SLOT_S * SLOTS)
    assert later == [None] * SLOTS
    series.add(1e6, 7.0)
    assert series.read(1e6)[-1] == 7.0


def of(world: World) -> History:
    """A history of the world's GPUs whose readings arrive at once."""
    agent = world.start_agent()
    history = History(
        agent.runtime,
        agent.loop,
        agent.devices,
        probe=agent.probe,
        gpus=agent.gpus,
        arbiter=agent.arbiter,
    )
    history._loop.call_soon_threadsafe = lambda call, *a: call(*a)  # type: ignore[method-assign]
    return history


def test_commands_share_a_reading_and_a_value_that_is_lacking_is_none() -> None:
    with World(Random(1), Settings(arena_bytes=100), gpus=2) as world:
        history = of(world)
        world.devices.sensors[0] = Telemetry(temperature_c=40, power_w=60.0)
        told: list[str] = []
        asked: list[int] = []

        def submit(ask: Callable[[], None]) -> None:
            asked.append(1)
            ask()

        history._probe.submit = submit  # type: ignore[method-assign]
        history.refresh(lambda: told.append("first"))
        history.refresh(lambda: told.append("second"))
        assert (told, len(asked)) == (["first", "second"], 1)
        assert history.latest[0].temperature_c == 40
        assert history.history(0)["temperature_c"][-1] == 40
        assert history.history(0)["memory"][-1] == 0.0
        assert history.history(1)["power_w"] == [None] * SLOTS
        history._read_s -= FRESH_S
        history.refresh(lambda: told.append("third"))
        assert len(asked) == 2
        history.start()
        assert len(asked) == 2, f"it was read less than {EVERY_S} s ago"
        history.stop()


def test_an_unreadable_gpu_hides_no_other_and_is_named_once() -> None:
    with World(Random(1), Settings(arena_bytes=100), gpus=2) as world:
        history = of(world)
        history._probe.submit = lambda ask: ask()  # type: ignore[method-assign]
        log = history._runtime.log = CapturingLogger()
        world.devices.sensors[1] = Telemetry(temperature_c=40)
        answers = world.devices.telemetry

        def telemetry(gpu: int) -> Telemetry:
            if gpu == 0 and broken:
                raise OSError("GPU is lost")
            return answers(gpu)

        world.devices.telemetry = telemetry  # type: ignore[method-assign,assignment]
        for broken in (True, True, False, True):
            history.take({})
            history._submit()
            assert history.latest[1].temperature_c == 40
            assert (0 in history.latest) is not broken
        said = [(call.args, call.kwargs) for call in log.calls]
        assert said == [(("sensors_unreadable",), {"gpu": 0, "problem": "GPU is lost"})] * 2
