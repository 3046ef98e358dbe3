"""Loops that are not asyncio's are refused before anything starts, and named where a component
wants one."""

import pytest

import torvyn
from torvyn.errors import FlowError
from torvyn.testing import CollectingSink


class Watched(CollectingSink):
    """Says whether it was started."""

    is_started = False

    def init(self, config):
        self.is_started = True


async def iterate(flow):
    async for _ in flow:
        pass


def by_hand(coroutine):
    """Drives a coroutine as a loop of another library would."""
    coroutine.send(None)


def on_trio(coroutine):
    import trio

    async def main():
        await coroutine

    trio.run(main)


@pytest.mark.parametrize("drive", [by_hand, on_trio])
def test_async_for_on_another_loop_is_refused_and_the_flow_is_still_new(drive):
    flow = torvyn.Flow(["a", "b"])

    with pytest.raises(FlowError, match="needs an asyncio event loop") as caught:
        drive(iterate(flow))

    assert caught.value.code == "loops.not-asyncio"
    assert list(flow.text()) == ["a", "b"]


@pytest.mark.parametrize("drive", [by_hand, on_trio])
def test_run_async_on_another_loop_is_refused_before_anything_is_started(drive):
    sink = Watched()
    flow = torvyn.Flow(["a"], sink)

    with pytest.raises(FlowError, match="`run_async` needs an asyncio event loop"):
        drive(flow.run_async())

    assert not sink.is_started


def refusing(name="sleep"):
    """A function of a library called trio that refuses to be called on another loop."""
    space = {"__name__": "trio._core._run"}
    exec(f"def {name}():\n    raise RuntimeError('must be called from async context')", space)
    return space[name]


@pytest.mark.parametrize("run", ["inline", "async"])
def test_a_component_that_calls_trio_is_told_what_to_use(run):
    call = refusing()

    async def on_loop(element):
        call()

    stage = on_loop if run == "async" else lambda element: call()
    flow = torvyn.Flow(["a"], torvyn.processor(stage), CollectingSink())

    with pytest.raises(FlowError, match="node `processor` failed in `process`") as caught:
        flow.run()

    assert caught.value.code == "loops.not-asyncio"
    assert "use asyncio or anyio instead of trio" in caught.value.hint


def test_what_fails_inside_a_loop_of_trios_own_is_an_ordinary_failure():
    run = refusing("run")
    flow = torvyn.Flow(["a"], torvyn.processor(lambda element: run()), CollectingSink())

    with pytest.raises(FlowError) as caught:
        flow.run()

    assert caught.value.code == "component.internal"


@pytest.mark.parametrize("name", ["sleep", "Event", "open_nursery"])
def test_trio_itself_is_recognised(name):
    import trio

    async def process(element):
        if name == "sleep":
            await trio.sleep(0)
        elif name == "Event":
            await trio.Event().wait()
        else:
            async with trio.open_nursery():
                pass

    with pytest.raises(FlowError) as caught:
        torvyn.Flow(["a"], torvyn.processor(process), CollectingSink()).run()

    assert caught.value.code == "loops.not-asyncio"
