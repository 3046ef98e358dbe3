"""What a flow may do at its broker, and what it says when it may not."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nats_parts import Collected, chain, part, sums, texts
from nats_parts import Sum as Sums
from scale import sample

import torvyn
from nats_server import NatsServer
from torvyn.errors import FlowError

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "one-machine-to-many.md"
BLOCK = re.compile(r"<!-- file: nats.conf -->\n```text\n(.*?)```", re.DOTALL)
PUBLISH = re.compile(r"publish = \[(.*?)\]", re.DOTALL)
SUBSCRIBE = re.compile(r"subscribe = \[(.*?)\]", re.DOTALL)
RUN_LATER = ("STREAM.DELETE", "STREAM.UPDATE", "STREAM.LIST", "MSG.DELETE", '"_INBOX.>"')
"""What needs these rights does not happen in a run that has nothing to change."""


def config() -> str:
    found = BLOCK.search(GUIDE.read_text())
    assert found is not None
    return found[1].replace("shop", "t").replace("$SHOP_PASSWORD", "secret")


def rights(kind: re.Pattern[str]) -> list[str]:
    found = kind.search(config())
    assert found is not None
    return [line.strip().rstrip(",") for line in found[1].splitlines() if '"' in line]


NEEDED = [right for right in rights(PUBLISH) if not any(each in right for each in RUN_LATER)]


@pytest.fixture
def served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], NatsServer]]:
    servers: list[NatsServer] = []

    def start(text: str) -> NatsServer:
        file = tmp_path / "nats.conf"
        file.write_text(text)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        server = NatsServer(port, tmp_path / "nats", ["-c", str(file)])
        servers.append(server)
        server.start()
        monkeypatch.setenv("TORVYN_CLUSTER__NATS", f"nats://t:secret@127.0.0.1:{port}")
        monkeypatch.setenv("TORVYN_CLUSTER__NAMESPACE", "t")
        return server

    yield start
    for server in servers:
        server.stop()


def run_for_a_while(flow: torvyn.Flow) -> None:
    flow.start()
    assert flow.wait(30), "it waits without a word"


def test_the_rights_of_the_guide_are_enough(served: Callable[[str], NatsServer]) -> None:
    served(config())
    for is_fresh in (False, True):
        sink = Collected()
        flow = chain(("a", texts(200)), ("sum", Sums()), ("b", sink))
        for segment in ("a", "sum", "b"):
            running = part(flow, segment)
            running.is_fresh = is_fresh
            running.run()
        assert sink.texts == sums(200)


@pytest.mark.parametrize("right", sample(NEEDED[:4], full=NEEDED))
def test_a_missing_right_is_named(served: Callable[[str], NatsServer], right: str) -> None:
    text = config()
    found = PUBLISH.search(text)
    assert found is not None
    allowed = [each for each in rights(PUBLISH) if each != right]
    served(text.replace(found[0], f"publish = [{', '.join(allowed)}]"))
    flow = chain(("a", texts(200)), ("sum", Sums()), ("b", Collected()))
    with pytest.raises(FlowError) as caught:
        run_for_a_while(flow)
    assert caught.value.code == "broker.denied"
    begin = right.strip('"').split("*")[0].rstrip(">").rstrip(".")
    assert f"publish on `{begin}" in str(caught.value)


def test_a_missing_right_to_read_answers_is_named(served: Callable[[str], NatsServer]) -> None:
    text = config()
    served(text.replace('subscribe = [\n        "_INBOX.>",', "subscribe = ["))
    with pytest.raises(FlowError, match="subscribe to `_inbox") as caught:
        run_for_a_while(chain(("a", texts(200)), ("b", Collected())))
    assert caught.value.code == "broker.denied"
