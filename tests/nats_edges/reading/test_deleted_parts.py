"""Somebody deletes what a running flow has on the broker: it goes on, or fails with the name of
what is gone, and never waits without a word. Its next start goes on with what comes next."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from nats_parts import Collected, Sum, chain, check_account, part, texts, wait_until
from scale import sample

import torvyn
from nats_server import NatsServer, ask
from torvyn.errors import FlowError

FIRST, LAST = "TV_t_main_a-output-sum", "TV_t_main_sum-output-b"
BUCKET = "KV_tv_t_main"
CODES = {FIRST: "broker.stream-gone", LAST: "broker.stream-gone", BUCKET: "broker.entry-gone"}


class Numbers(torvyn.Source):
    """Numbers, one every millisecond, until it is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0
        self.is_over = False

    def pull(self) -> object:
        if self.is_over:
            return None
        self.sent += 1
        return torvyn.PENDING.after(0.001) if self.sent % 2 else str(self.sent)


def delete(server: NatsServer, what: str, *, is_made_again: bool = False) -> None:
    async def call(client: Any, js: Any) -> None:
        config = (await js.stream_info(what)).config
        await js.delete_stream(what)
        if is_made_again:
            await js.add_stream(config)

    ask(server, call)


def moments() -> dict[str, Callable[[Numbers, Collected], None]]:
    def at_once(source: Numbers, sink: Collected) -> None:
        wait_until(lambda: source.sent > 0)

    def moving(source: Numbers, sink: Collected) -> None:
        wait_until(lambda: len(sink.seen) > 20)

    def waiting(source: Numbers, sink: Collected) -> None:
        moving(source, sink)
        sink.gate.clear()
        before = source.sent
        wait_until(lambda: source.sent > before + 200)

    return {"at once": at_once, "moving": moving, "waiting": waiting}


CASES = list(itertools.product(CODES, ("at once", "moving", "waiting"), (False, True)))


@pytest.mark.parametrize(("what", "moment", "is_made_again"), sample(CASES[2::7], full=CASES))
def test_a_flow_says_what_is_gone(
    server: NatsServer, what: str, moment: str, is_made_again: bool
) -> None:
    source, sink = Numbers(), Collected()
    flow = chain(("a", source), ("sum", Sum()), ("b", sink)).start()
    moments()[moment](source, sink)
    delete(server, what, is_made_again=is_made_again)
    sink.gate.set()
    with pytest.raises(FlowError) as caught:
        assert flow.wait(20), "it waits without a word"
    assert caught.value.code == CODES[what]
    assert (what in str(caught.value)) or (what == BUCKET and "has saved" in str(caught.value))
    check_account(flow)

    later = Collected()
    again = chain(("a", texts(50)), ("sum", Sum()), ("b", later))
    again.start()
    assert again.wait(30)
    check_account(again)
    assert len(later.texts) >= 50


def test_a_deleted_consumer_is_made_again(server: NatsServer) -> None:
    sink = Collected()
    source = Numbers()
    flow = chain(("a", source), ("b", sink)).start()
    wait_until(lambda: len(sink.seen) > 20)
    for _ in range(3):

        async def call(client: Any, js: Any) -> None:
            for found in await js.consumers_info("TV_t_main_a-output-b"):
                await js.delete_consumer("TV_t_main_a-output-b", found.name)

        ask(server, call)
        before = len(sink.seen)
        wait_until(lambda before=before: len(sink.seen) > before + 20)
    source.is_over = True
    assert flow.wait(30)
    assert sink.texts == [str(number) for number in range(2, source.sent + 1, 2)]


def test_a_reader_and_a_writer_in_other_processes_say_it_too(server: NatsServer) -> None:
    source, sink = Numbers(), Collected()
    flow = chain(("a", source), ("b", sink))
    running = [part(flow, segment).start() for segment in ("a", "b")]
    wait_until(lambda: len(sink.seen) > 20)
    delete(server, "TV_t_main_a-output-b")
    for each in running:
        with pytest.raises(FlowError, match="TV_t_main_a-output-b") as caught:
            assert each.wait(20), "it waits without a word"
        assert caught.value.code == "broker.stream-gone"
