"""`nats` against a real server: subjects and streams, acknowledgements, lost connections."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from nats_server import NatsServer, needs_nats_server
from waiting import PATIENCE_S, eventually, pull

import torvyn
from torvyn import Element, InvalidInput, Unavailable
from torvyn.components.builtin.sink_nats import Nats as NatsSink
from torvyn.components.builtin.source_nats import Nats as NatsSource
from torvyn.errors import ContractError
from torvyn.testing import CollectingSink, ScriptedSource

nats = pytest.importorskip("nats", reason="needs nats-py: pip install 'torvyn[nats]'")
pytestmark = needs_nats_server


@pytest.fixture
def server(tmp_path, free_port):
    server = NatsServer(free_port, tmp_path / "nats")
    server.start()
    yield server
    server.stop()


def ask(server, call):
    """Runs a coroutine function with a client and its JetStream context."""

    async def run():
        client = await nats.connect(server.url, connect_timeout=5)
        try:
            return await call(client, client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


def add_stream(server, **config):
    async def call(client, js):
        await js.add_stream(name="S", subjects=["s.>"], **config)

    ask(server, call)


def publish(server, *texts, subject="s.a"):
    async def call(client, js):
        for text in texts:
            await js.publish(subject, text.encode())

    ask(server, call)


def stored(server):
    async def call(client, js):
        state = (await js.stream_info("S")).state
        numbers = range(state.first_seq, state.last_seq + 1) if state.messages else ()
        return [(await js.get_msg("S", number)).data.decode() for number in numbers]

    return ask(server, call)


def pending(server):
    async def call(client, js):
        found = await js.consumer_info("S", "d")
        return found.num_ack_pending + found.num_pending

    return ask(server, call)


@pytest.fixture
def source(running, server):
    def started(**config):
        table = {"servers": server.url, **config}
        return running(NatsSource, json.dumps(table))

    return started


@pytest.fixture
def reader(source):
    return lambda **config: source(**{"stream": "S", "durable": "d", **config})


@pytest.fixture
def sink(running, server):
    def started(**config):
        return running(NatsSink, json.dumps({"servers": server.url, "subject": "s.a", **config}))

    return started


def texts(outputs):
    return [output.data.decode() for output in outputs]


def test_messages_of_a_subject_arrive_with_their_subject_and_headers(source, server):
    receiver = source(subject="t.>")
    eventually(lambda: receiver.connection.is_connected)

    async def call(client, js):
        await client.publish("t.x", b"1", headers={"Content-Type": "application/json"})
        await client.publish("t.y", b"2")

    ask(server, call)
    first, second = pull(receiver, 2)
    assert texts([first, second]) == ["1", "2"]
    assert first.content_type == "application/json"
    assert first.attributes["subject"] == "t.x"
    assert second.attributes == {"subject": "t.y"}


def test_members_of_a_queue_share_the_messages(source, server):
    members = [source(subject="t", queue="q") for _ in range(2)]
    eventually(lambda: all(member.connection.is_connected for member in members))

    async def call(client, js):
        for number in range(20):
            await client.publish("t", str(number).encode())

    ask(server, call)
    eventually(lambda: sum(len(member._inbox) for member in members) == 20)


def test_a_message_is_acknowledged_when_it_is_settled(reader, server):
    add_stream(server)
    publish(server, "a", "b", "c")
    receiver = reader()
    assert texts(pull(receiver, 3)) == ["a", "b", "c"]
    assert pending(server) == 3
    receiver.acknowledge(2)
    eventually(lambda: pending(server) == 1)


def test_what_was_not_settled_is_delivered_again_in_order(reader, server):
    add_stream(server)
    publish(server, *"abcde")
    first = reader()
    pull(first, 4)
    first.acknowledge(2)
    first.teardown()
    assert texts(pull(reader(), 3)) == ["c", "d", "e"]


def test_no_more_messages_are_requested_than_there_is_room_for(reader, server):
    add_stream(server)
    publish(server, *map(str, range(30)))
    receiver = reader(capacity=8)
    assert texts(pull(receiver, 8)) == [str(number) for number in range(8)]
    assert len(receiver._reader._in_flow) == 8
    receiver.acknowledge(8)
    assert texts(pull(receiver, 8)) == [str(number) for number in range(8, 16)]


def test_a_message_that_takes_long_is_not_delivered_twice(reader, server):
    add_stream(server)
    publish(server, "slow")
    receiver = reader(ack_wait="200ms")
    pull(receiver, 1)

    async def redelivered(client, js):
        return (await js.consumer_info("S", "d")).num_redelivered

    eventually(lambda: ask(server, redelivered))
    publish(server, "next")
    assert texts(pull(receiver, 1)) == ["next"]


def test_a_stream_that_is_missing_is_waited_for(reader, server):
    receiver = reader()
    eventually(lambda: receiver.connection.status.reason)
    assert "stream not found" in receiver.connection.status.reason
    add_stream(server)
    publish(server, "a")
    assert texts(pull(receiver, 1)) == ["a"]


def test_after_a_restart_of_the_server_messages_arrive_and_are_acknowledged(reader, server):
    add_stream(server)
    publish(server, "a", "b")
    receiver = reader()
    assert texts(pull(receiver, 2)) == ["a", "b"]
    server.stop(signal.SIGTERM)
    eventually(lambda: receiver.connection.status.reason)
    server.start()
    eventually(lambda: receiver.connection.is_connected)
    receiver.acknowledge(2)
    publish(server, "c")
    assert texts(pull(receiver, 1)) == ["c"]
    eventually(lambda: pending(server) == 1)


def test_a_server_that_is_away_may_be_an_error(running, free_port):
    config = {"subject": "a", "servers": f"nats://127.0.0.1:{free_port}", "on_disconnect": "fail"}
    with pytest.raises(Unavailable, match="connection refused"):
        pull(running(NatsSource, json.dumps(config)), 1)
    with pytest.raises(Unavailable):
        running(NatsSink, json.dumps(config)).push(Element("a"))


def test_a_rejected_password_is_the_reason(running, tmp_path, free_port):
    server = NatsServer(free_port, tmp_path / "auth", ["--user", "u", "--pass", "right"])
    server.start()
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(server.stop)
        table = {"servers": server.url, "subject": "a", "user": "u"}
        wrong = running(NatsSource, json.dumps({**table, "password": "wrong"}))
        eventually(lambda: wrong.connection.status.reason)
        assert "uthorization" in wrong.connection.status.reason
        right = running(NatsSource, json.dumps({**table, "password": "right"}))
        eventually(lambda: right.connection.is_connected)


def test_a_server_with_a_certificate_is_checked(running, tmp_path, free_port):
    trustme = pytest.importorskip("trustme", reason="`make test-deps` installs it")
    authority, other = trustme.CA(), trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "key")
    for name, made in (("good", authority), ("bad", other)):
        made.cert_pem.write_to_path(tmp_path / name)
    files = ["--tls", "--tlscert", str(tmp_path / "key"), "--tlskey", str(tmp_path / "key")]
    server = NatsServer(free_port, tmp_path / "tls", files)
    server.start()
    table = {"servers": f"tls://127.0.0.1:{free_port}", "subject": "a"}
    trusting = running(NatsSource, json.dumps({**table, "ca_file": str(tmp_path / "good")}))
    eventually(lambda: trusting.connection.is_connected)
    wary = running(NatsSource, json.dumps({**table, "ca_file": str(tmp_path / "bad")}))
    eventually(lambda: wary.connection.status.reason)
    assert "certificate verify failed" in wary.connection.status.reason
    server.stop()


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"subject": "a", "servers": "http://127.0.0.1"},
        {"subject": "a", "ca_file": "ca.pem"},
        {"stream": "S"},
        {"subject": "a", "durable": "d"},
        {"stream": "S", "durable": "d", "queue": "q"},
    ],
)
def test_a_wrong_config_is_rejected(config):
    with pytest.raises(ContractError):
        NatsSource().init(json.dumps(config))


def test_a_password_is_not_shown(running):
    url = "nats://user:secret@127.0.0.1:1"
    source = running(NatsSource, json.dumps({"subject": "a", "servers": [url, "127.0.0.1:2"]}))
    assert source.connection.status.address == "nats://127.0.0.1:1, 127.0.0.1:2"


@pytest.mark.parametrize("subject", ["", "a.*", "a.>", "a b", "a..b", "a.{}", "a.{b"])
def test_a_subject_to_publish_to_has_no_wildcards(subject):
    with pytest.raises(ContractError):
        NatsSink().init(json.dumps({"subject": subject}))


def test_a_sink_publishes_to_a_subject(sink, source):
    receiver = source(subject="s.a")
    eventually(lambda: receiver.connection.is_connected)
    sink().push_batch([Element("a"), Element("b")])
    assert texts(pull(receiver, 2)) == ["a", "b"]


def test_a_batch_is_stored_when_the_push_returns(sink, server):
    add_stream(server)
    sink(jetstream=True).push_batch([Element(str(number)) for number in range(100)])
    assert stored(server) == [str(number) for number in range(100)]


def test_an_id_is_stored_once(sink, server):
    add_stream(server)
    elements = [Element('{"id": 1}'), Element('{"id": 2}')]
    for _ in range(2):
        sink(jetstream=True, message_id="id").push_batch(elements)
    assert stored(server) == ['{"id": 1}', '{"id": 2}']
    with pytest.raises(InvalidInput, match="no 'id'"):
        sink(jetstream=True, message_id="id").push(Element("{}"))


def test_a_subject_may_have_fields_of_the_element(sink, source):
    receiver = source(subject="t.>")
    eventually(lambda: receiver.connection.is_connected)
    sender = sink(subject="t.{device.id}.{@kind}")
    sender.push(Element('{"device": {"id": 7}}', attributes={"kind": "raw"}))
    assert pull(receiver, 1)[0].attributes["subject"] == "t.7.raw"
    for payload in ('{"device": {"id": "a.b"}}', '{"device": {}}', "text"):
        with pytest.raises(InvalidInput):
            sender.push(Element(payload, attributes={"kind": "raw"}))


def test_a_server_that_no_longer_answers_is_given_up(sink, server):
    add_stream(server)
    sender = sink(jetstream=True, timeout="200ms")
    sender.push(Element("before"))
    server.send(signal.SIGSTOP)
    pusher = threading.Thread(target=sender.push, args=(Element("after"),), daemon=True)
    pusher.start()
    eventually(lambda: sender.connection.status.reason)
    server.send(signal.SIGCONT)
    pusher.join(PATIENCE_S)
    assert stored(server) == ["before", "after"]


def test_the_number_in_the_flow_may_be_the_id(sink, server):
    add_stream(server)
    elements = [Element(str(n), sequence=n, attributes={"epoch": "e"}) for n in range(3)]
    sink(jetstream=True, once=True).push_batch(elements[:2])
    sink(jetstream=True, once=True).push_batch(elements)
    assert stored(server) == ["0", "1", "2"]


def test_a_payload_over_the_limit_of_the_server_is_rejected_and_nothing_sent(sink, server):
    add_stream(server)
    with pytest.raises(InvalidInput, match="1048576"):
        sink(jetstream=True).push_batch([Element("a"), Element("x" * 1024 * 1024)])
    assert stored(server) == []


def test_a_sink_waits_for_a_stream_that_is_missing(sink, server):
    waiting = sink(jetstream=True)
    pusher = threading.Thread(target=waiting.push, args=(Element("a"),), daemon=True)
    pusher.start()
    eventually(lambda: waiting.connection.status.reason == "no stream stores s.a")
    add_stream(server)
    pusher.join(PATIENCE_S)
    assert stored(server) == ["a"]


def test_a_full_stream_is_waited_for(sink, server):
    add_stream(server, max_msgs=1, discard="new")
    publish(server, "old")
    waiting = sink(jetstream=True)
    pusher = threading.Thread(target=waiting.push, args=(Element("new"),), daemon=True)
    pusher.start()
    eventually(lambda: waiting.connection.status.reason == "the stream of s.a is full")

    async def purge(client, js):
        await js.purge_stream("S")

    ask(server, purge)
    pusher.join(PATIENCE_S)
    assert stored(server) == ["new"]


def test_a_restart_of_the_server_loses_and_repeats_nothing(sink, server):
    add_stream(server)
    sender, sent = sink(jetstream=True), 0

    def send():
        nonlocal sent
        for number in range(400):
            sender.push(Element(str(number)))
            sent = number

    pusher = threading.Thread(target=send, daemon=True)
    pusher.start()
    for goal in (50, 150):
        eventually(lambda goal=goal: sent > goal)
        server.stop(signal.SIGTERM)
        server.start()
    pusher.join(PATIENCE_S)
    assert stored(server) == [str(number) for number in range(400)]


def test_a_flow_ends_although_the_server_is_away(free_port):
    sink = NatsSink({"subject": "a", "servers": f"nats://127.0.0.1:{free_port}"})
    handle = torvyn.Flow(ScriptedSource(["a"]), sink).start()
    eventually(lambda: getattr(sink, "connection", None) and sink.connection.status.reason)
    handle.cancel()
    handle.wait()


def test_a_flow_acknowledges_what_its_sink_has_accepted(server):
    add_stream(server)
    publish(server, *"abc")
    source, sink = (
        NatsSource({"stream": "S", "durable": "d", "servers": server.url}),
        CollectingSink(),
    )
    torvyn.Flow(source, sink).limit(3).run()
    assert [element.text for element in sink.elements] == ["a", "b", "c"]
    assert pending(server) == 0


KILLED = """
import sys, torvyn
from torvyn.components.builtin.source_nats import Nats
from torvyn.components.builtin.sink_file import File
source = Nats({"stream": "S", "durable": "d", "servers": sys.argv[1], "capacity": 64})
torvyn.Flow(source, File({"path": sys.argv[2]})).run()
"""


def test_nothing_is_lost_when_the_process_is_killed(server, tmp_path):
    add_stream(server)
    publish(server, *map(str, range(3000)))
    path, environment = (
        tmp_path / "out",
        {
            **os.environ,
            "PYTHONPATH": str(Path(torvyn.__file__).parents[1]),
        },
    )
    path.touch()
    for goal in (100, 500, 1000, 1500, 3000):
        command = [sys.executable, "-c", KILLED, server.url, str(path)]
        with subprocess.Popen(command, env=environment) as process:
            eventually(lambda goal=goal: len(set(path.read_text().split())) >= goal)
            process.send_signal(signal.SIGKILL)
    lines = path.read_text().split()
    assert sorted(set(map(int, lines))) == list(range(3000))
    assert len(lines) <= 3000 + 5 * 64 * 2
