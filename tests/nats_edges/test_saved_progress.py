"""What a segment has saved, at its next start: batches that it owes, and streams with other
numbers."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import nats
import pytest
from nats_parts import (
    Collected,
    Sum,
    chain,
    check_account,
    part,
    run_parts,
    sums,
    texts,
    wait_until,
)

import torvyn
from nats_server import NatsServer
from torvyn.errors import FlowError


def narrow(count: int, sink: Collected) -> torvyn.Flow:
    """A flow whose last edge takes one batch at a time."""
    flow = torvyn.Flow(name="main")
    flow.add("a", texts(count)).add("sum", Sum()).add("b", sink)
    flow.connect("a", "sum", carrier="nats")
    return flow.connect("sum", "b", carrier="nats", max_waiting=1)


def start_until_full(flow: torvyn.Flow) -> torvyn.Flow:
    """Runs the middle until the broker takes no more of its batches."""
    running = part(flow, "sum").start()
    (output,) = running._execution.durable._outputs
    wait_until(lambda: output.refusals > 3)
    return running


def delete_streams(server: NatsServer, *names: str) -> None:
    async def delete() -> None:
        client = await nats.connect(server.url)
        for name in names:
            await client.jetstream().delete_stream(name)
        await client.close()

    asyncio.run(delete())


def test_batches_that_were_refused_are_owed_by_the_next_process(server: NatsServer) -> None:
    sink = Collected()
    flow = narrow(20_000, sink)
    part(flow, "a").run()
    for _ in range(3):
        running = start_until_full(flow)
        running.cancel()
        running.wait(30)
        check_account(running)
    run_parts([part(flow, "sum"), part(flow, "b")])
    assert sink.texts == sums(20_000)


def test_what_is_owed_to_an_edge_that_is_gone_is_refused(server: NatsServer) -> None:
    flow = narrow(20_000, Collected())
    part(flow, "a").run()
    running = start_until_full(flow)
    running.cancel()
    running.wait(30)
    other = chain(("a", texts(0)), ("sum", Sum()), ("c", Collected()))
    with pytest.raises(FlowError, match="edge that is gone") as caught:
        part(other, "sum").run()
    assert caught.value.code == "durable.shape-changed"


def test_what_a_renamed_segment_has_saved_is_refused(server: NatsServer) -> None:
    flow = narrow(20_000, Collected())
    part(flow, "a").run()
    running = start_until_full(flow)
    running.cancel()
    running.wait(30)
    other = chain(("a", texts(0)), ("total", Sum()), ("b", Collected()))
    with pytest.raises(FlowError, match="segment `sum` is gone"):
        part(other, "b").run()
    fresh = part(other, "a")
    fresh.is_fresh = True
    fresh.run()
    run_parts([part(other, "total"), part(other, "b")])


@pytest.mark.parametrize("count", [1, 3])
def test_a_stream_that_was_made_again_is_read_from_its_beginning(
    server: NatsServer, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Collected()
    for _ in range(count):
        flow = chain(("a", texts(50)), ("sum", Sum()), ("b", sink))
        run_parts([part(flow, "b"), part(flow, "sum"), part(flow, "a")])
    delete_streams(server, "TV_t_main_a-output-sum", "TV_t_main_sum-output-b")
    flow = chain(("a", texts(50)), ("sum", Sum()), ("b", sink))
    with caplog.at_level(logging.WARNING):
        run_parts([part(flow, "b"), part(flow, "sum"), part(flow, "a")])
    assert sink.texts == sums(50) * (count + 1)
    assert "the stream of `a:output->sum` was deleted and made again" in caplog.text


MANIFEST = """
[torvyn]
name = "{project}"
version = "1.0.0"
contract_version = "0.1.0"

[flow.main.nodes.a]
component = "lines"
config = {{ path = "{lines}" }}

[flow.main.nodes.b]
component = "null"

[[flow.main.edges]]
from = "a"
to = "b"
carrier = "nats"
"""


def of_project(folder: Path, project: str) -> torvyn.Flow:
    folder.mkdir(exist_ok=True)
    lines = folder / "lines.txt"
    lines.write_text("a\nb\n")
    (folder / "Torvyn.toml").write_text(MANIFEST.format(project=project, lines=lines))
    return torvyn.load(str(folder / "Torvyn.toml")).flow("main")


def test_flows_of_two_projects_do_not_share_a_name_on_the_broker(
    server: NatsServer, tmp_path: Path
) -> None:
    of_project(tmp_path / "plant", "plant").run()
    of_project(tmp_path / "plant", "plant").run()
    with pytest.raises(
        FlowError, match=r"of the project `plant` .* this one is of `office`"
    ) as caught:
        of_project(tmp_path / "office", "office").run()
    assert caught.value.code == "broker.other-project"
    # What `--fresh` discards must be the project's own.
    fresh = of_project(tmp_path / "office", "office")
    fresh.is_fresh = True
    with pytest.raises(FlowError, match="of the project `plant`"):
        fresh.run()
    of_project(tmp_path / "plant", "plant").run()
