"""`nats` as a sink, against a real server: confirmations, ids and lost connections."""

import json
import signal
import threading

import pytest
from waiting import PATIENCE_S, eventually, pull

import torvyn
from nats_server import add_stream, ask, publish, stored, texts
from torvyn import Element, InvalidInput
from torvyn._contract.element import Context
from torvyn.components import NatsSink
from torvyn.errors import ContractError
from torvyn.testing import ScriptedSource


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
    sender = sink(jetstream=True, timeout="1s")
    sender.push(Element("before"))
    server.send(signal.SIGSTOP)
    pusher = threading.Thread(target=sender.push, args=(Element("after"),), daemon=True)
    pusher.start()
    eventually(lambda: sender.connection.status.reason)
    server.send(signal.SIGCONT)
    pusher.join(PATIENCE_S)
    # Without an id, a message whose confirmation did not arrive may be stored twice.
    assert list(dict.fromkeys(stored(server))) == ["before", "after"]


def test_the_number_in_the_flow_may_be_the_id(sink, server):
    add_stream(server)
    context = Context("run", "main", "trace", epoch="e")
    elements = [Element(str(n), sequence=n, context=context) for n in range(3)]
    sink(jetstream=True, once=True).push_batch(elements[:2])
    sink(jetstream=True, once=True).push_batch(elements)
    assert stored(server) == ["0", "1", "2"]


def test_a_payload_over_the_limit_of_the_server_is_refused_and_the_others_are_sent(sink, server):
    add_stream(server)
    large = Element("x" * 1024 * 1024)
    answer = sink(jetstream=True).push_batch([Element("a"), large, Element("b")])
    assert answer[0] is answer[2] is None
    assert "1048576" in str(answer[1])
    assert stored(server) == ["a", "b"]


def test_a_message_over_the_limit_of_its_stream_is_refused_and_the_others_are_stored(sink, server):
    add_stream(server, max_msg_size=300)
    answer = sink(jetstream=True).push_batch([Element("a"), Element("x" * 1000), Element("b")])
    assert answer[0] is answer[2] is None
    assert "exceeds maximum" in str(answer[1])
    assert stored(server) == ["a", "b"]


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
