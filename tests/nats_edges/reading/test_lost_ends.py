"""The message that says that a writer has ended is gone before it was read: the run ends all the
same, when everything that is left was read."""

from __future__ import annotations

import itertools
import time

import pytest
from nats_parts import Collected, Sum, chain, check_account, part, sums, texts
from scale import sample

import torvyn
from nats_server import NatsServer, ask
from torvyn._durable.nats import backend

COUNT = 30
MAX_AGE_S = 1.0
EXPIRED_S = 2.5
STREAMS = {"a": "TV_t_main_a-output-sum", "sum": "TV_t_main_sum-output-b"}
"""By writer: one that is saved by cuts, and one that is not."""


def purge(server: NatsServer, stream: str, subject: str | None) -> None:
    async def call(client: object, js: object) -> None:
        await js.purge_stream(stream, subject=subject)  # type: ignore[attr-defined]

    ask(server, call)


def lose(server: NatsServer, writer: str, how: str) -> None:
    if how == "expired":
        time.sleep(EXPIRED_S)
    else:
        end = f"tv.t.main.{STREAMS[writer].removeprefix('TV_t_main_')}.1.*.$end-0"
        purge(server, STREAMS[writer], end if how == "end purged" else None)


def flow_of(how: str, sink: Collected) -> torvyn.Flow:
    options = {"max_age_s": MAX_AGE_S} if how == "expired" else {}
    return chain(("a", texts(COUNT)), ("sum", Sum()), ("b", sink), **options)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "CHECK_S", 0.05)


CASES = list(itertools.product(("all purged", "end purged", "expired"), STREAMS, ("", "r")))


@pytest.mark.parametrize(("how", "writer", "run"), sample(CASES[1::3], full=CASES))
def test_a_reader_ends_without_the_end_of_its_writer(
    server: NatsServer, how: str, writer: str, run: str
) -> None:
    sink = Collected()
    flow = flow_of(how, sink)
    before, after = (("a",), ("sum", "b")) if writer == "a" else (("a", "sum"), ("b",))
    for segment in before:
        part(flow, segment, run=run).run()
    lose(server, writer, how)
    edges = []
    for segment in after:
        reader = part(flow, segment, run=run).start()
        assert reader.wait(30), f"`{segment}` waits for ever"
        check_account(reader)
        edges += reader.statistics.edges
    is_kept = how == "end purged"
    assert sink.texts == (sums(COUNT) if is_kept else [])
    first = edges[0]
    if writer == "sum" or how == "expired":
        # How many there were is saved where numbers go on, or where elements may expire.
        assert (first.taken, first.dropped) == ((COUNT, 0) if is_kept else (0, COUNT))


@pytest.mark.parametrize("is_fresh", [False, True])
def test_what_has_ended_before_is_no_end_of_the_next_run(
    server: NatsServer, is_fresh: bool
) -> None:
    """Its end was read, or a reader begins anew that must wait for its writer."""
    for _ in range(2):
        sink = Collected()
        flow = chain(("a", texts(COUNT)), ("b", sink))
        reader = part(flow, "b")
        reader.is_fresh = is_fresh
        reader.start()
        # Longer than it takes to find out that an end is gone.
        assert not reader.wait(1)
        part(flow, "a").run()
        assert reader.wait(30)
        assert sink.texts == texts(COUNT)
