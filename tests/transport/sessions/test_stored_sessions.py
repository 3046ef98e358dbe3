"""Sessions outlive their process, in a file and at a broker: the next one loses nothing."""

from __future__ import annotations

import pytest
from asgi_client import Client, Gated, within
from stored_processes import (
    STATEFUL,
    WORDS,
    assert_whole,
    begun,
    come_back,
    deltas,
    killed,
    process,
    slow,
)

from torvyn.engine import Scripted
from torvyn.protocol import Decoder, DeltaFrame


@pytest.mark.promise("inference.resume-after-kill")
@pytest.mark.parametrize("chunks", [1, 2, 5, 9])
async def test_another_process_goes_on_to_the_same_text(store: str, chunks: int) -> None:
    async with process(slow(), store) as first:
        client = await begun(first, chunks)
        await killed(first, client)
    async with process(slow(), store) as second:
        again = await come_back(second, client)
    assert_whole(client, again)
    assert again.frames()[-1].usage.completion_tokens == 10


async def test_a_third_process_goes_on_too(store: str) -> None:
    clients: list[Client] = []
    for chunks in (3, 3):
        async with process(slow(), store) as application:
            client = (
                await begun(application, 3) if not clients else come_back(application, clients[-1])
            )
            await client.until(chunks)
            clients.append(client)
            await killed(application, client)
    async with process(slow(), store) as last:
        clients.append(await come_back(last, clients[-1]))
    assert_whole(*clients)


async def test_an_ended_answer_is_replayed_as_it_was(store: str) -> None:
    async with process(Scripted(WORDS), store) as first:
        client = await Client(first, body=STATEFUL)
    async with process(Scripted("other words"), store) as second:
        path = f"/v1/streams/{client.frames_start_id()}"
        again = await Client(second, path, method="GET")
    assert again.body == client.body


async def test_an_engine_that_is_not_replayable_ends_the_session_with_an_error(store: str) -> None:
    engine = Gated()
    async with process(engine, store) as first:
        client = Client(first, body=STATEFUL)
        engine.tokens.put_nowait("one ")
        await client.until(2)
        await killed(first, client)
    async with process(Gated(), store) as second:
        path = f"/v1/streams/{client.frames_start_id()}"
        again = await Client(second, path, method="GET")
    start, delta, error, end = again.frames()
    assert (delta.text, error.code) == ("one ", "session.generation-lost")
    assert end.finish[0].reason == "error"
    assert start.id == client.frames_start_id()


@pytest.mark.parametrize("now", ["one TWO three four five six", "one"])
async def test_a_flow_that_answers_differently_now_is_not_joined_to_the_old_answer(
    store: str, now: str
) -> None:
    async with process(slow(), store) as first:
        client = await begun(first, 5)
        await killed(first, client)
    async with process(Scripted(now), store) as second:
        again = await come_back(second, client)
    assert again.frames()[-2].code == "session.generation-lost"
    assert WORDS.startswith("".join(text for _, text in deltas(client, again)))


async def test_a_long_answer_is_kept_from_its_oldest_frame_on(store: str) -> None:
    numbers = " ".join(str(number).rjust(60) for number in range(200))
    options = {"session_bytes": 4096, "chunk_tokens": 1}
    async with process(Scripted(numbers, delay=0.0005), store, **options) as first:
        client = await begun(first, 150)
        await killed(first, client)
    async with process(Scripted(numbers), store, **options) as second:
        again = come_back(second, client)
        await again
    assert_whole(client, again, text=numbers)


async def test_several_choices_go_on_each_from_its_own_place(store: str) -> None:
    engine = lambda: Scripted(answers=["a b c d e f", "1 2 3 4 5 6"], delay=0.002)  # noqa: E731
    async with process(engine(), store) as first:
        client = Client(first, body={**STATEFUL, "n": 2})
        await client.until(4)
        await killed(first, client)
    async with process(engine(), store) as second:
        again = await come_back(second, client)
    texts = {0: "", 1: ""}
    for c in (client, again):
        for frame in Decoder("torvyn", "sse").put(c.body):
            if isinstance(frame, DeltaFrame):
                texts[frame.index] += frame.text
    assert texts == {0: "a b c d e f", 1: "1 2 3 4 5 6"}


async def test_the_end_of_a_server_leaves_it_to_the_next(store: str) -> None:
    async with process(slow(), store) as first:
        client = await begun(first, 3)
        await within(first.drain(0.001))
        await client
    codes = [f.code for f in client.frames() if f.__class__.__name__ == "ErrorFrame"]
    assert codes == ["transport.shutting-down"]
    async with process(slow(), store) as second:
        again = await come_back(second, client)
    assert_whole(client, again)
