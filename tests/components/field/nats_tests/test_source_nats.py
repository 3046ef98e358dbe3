"""`nats` as a source, against a real server: subjects, streams and acknowledgements."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import eventually, pull

import torvyn
from failing_once import UNEXPECTED, fail_once
from nats_server import add_stream, ask, pending, publish, texts
from torvyn import Element, Unavailable
from torvyn.components import NatsSink, NatsSource
from torvyn.components.network.jetstream import JetStreamReader
from torvyn.components.network.nats_client import NatsClient
from torvyn.errors import ContractError
from torvyn.testing import CollectingSink


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


def test_a_rejected_password_is_the_reason(running, start_server):
    server = start_server("--user", "u", "--pass", "right")
    table = {"servers": server.url, "subject": "a", "user": "u"}
    wrong = running(NatsSource, json.dumps({**table, "password": "wrong"}))
    eventually(lambda: wrong.connection.status.reason)
    assert "uthorization" in wrong.connection.status.reason
    right = running(NatsSource, json.dumps({**table, "password": "right"}))
    eventually(lambda: right.connection.is_connected)


def test_a_server_with_a_certificate_is_checked(running, start_server, tmp_path):
    import trustme

    authority, key = trustme.CA(), str(tmp_path / "key")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(key)
    authority.cert_pem.write_to_path(tmp_path / "good")
    trustme.CA().cert_pem.write_to_path(tmp_path / "bad")
    server = start_server("--tls", "--tlscert", key, "--tlskey", key)
    table = {"servers": server.url.replace("nats:", "tls:"), "subject": "a"}
    trusting = running(NatsSource, json.dumps({**table, "ca_file": str(tmp_path / "good")}))
    eventually(lambda: trusting.connection.is_connected)
    wary = running(NatsSource, json.dumps({**table, "ca_file": str(tmp_path / "bad")}))
    eventually(lambda: wary.connection.status.reason)
    assert "certificate verify failed" in wary.connection.status.reason


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
from torvyn.components import NatsSource as Nats
from torvyn.components import File
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


@pytest.mark.parametrize("error", UNEXPECTED)
@pytest.mark.parametrize(("loop", "step"), [(NatsClient, "session"), (JetStreamReader, "_run")])
def test_an_unexpected_error_is_a_lost_connection(reader, server, monkeypatch, loop, step, error):
    add_stream(server)
    fail_once(monkeypatch, loop, step, error)
    receiver = reader()
    publish(server, "a", "b")

    assert texts(pull(receiver, 2)) == ["a", "b"]
    assert "an unexpected error" in receiver.connection.status.reason
