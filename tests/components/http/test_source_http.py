"""The HTTP source in real flows, called by a real client: when it answers, and with what."""

import contextlib
import http.client
import json
import threading

import pytest

import torvyn
from torvyn.components import HttpSource as Http
from torvyn.components.config import config_text
from torvyn.errors import ContractError, FlowError


class Gate(torvyn.Sink):
    """Keeps elements; accepts one only when the gate is open."""

    run = "thread"

    def __init__(self):
        super().__init__()
        self.taken = []
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.opened.set()

    def push(self, element):
        self.entered.set()
        self.opened.wait(20)
        self.taken.append(element)


@pytest.fixture
def listening():
    """Starts flows with an HTTP source, and ends them."""
    flows = []

    def start(**config):
        source, gate = Http({"listen": "127.0.0.1:0", **config}), Gate()
        flows.append((torvyn.Flow(source, gate).start(), gate))
        return source, gate, flows[-1][0]

    yield start
    for flow, gate in flows:
        gate.opened.set()
        flow.cancel()
        flow.wait(20)


def send(source, body, kind="application/json", method="POST", path="/", **headers):
    """The status, the message and the headers of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", source.port, timeout=20)
    with contextlib.closing(connection):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"Content-Type": kind, **headers})
        answer = connection.getresponse()
        text = answer.read()
        with contextlib.suppress(ValueError):
            text = json.loads(text)["message"]
        return answer.status, text, answer.headers


@pytest.mark.parametrize(
    ("body", "kind", "texts"),
    [
        ('[{"a": 1}, 2]', "application/json", ['{"a":1}', "2"]),
        ('{"a": 1}', "application/json; charset=utf-8", ['{"a": 1}']),
        ("1\n\n2\r\nno json\n", "application/x-ndjson", ["1", "2", "no json"]),
        ("as it is\n", "text/plain", ["as it is\n"]),
        ("[]", "application/json", []),
    ],
)
def test_a_body_becomes_elements_by_its_content_type(listening, body, kind, texts):
    source, gate, _ = listening()

    status, message, _ = send(source, body, kind)

    assert (status, message) == (200, f"accepted {len(texts)} elements")
    assert [element.text for element in gate.taken] == texts


def test_the_answer_comes_when_the_sink_has_accepted_all_elements(listening):
    source, gate, _ = listening()
    gate.opened.clear()
    answers = []
    client = threading.Thread(target=lambda: answers.append(send(source, "[1, 2, 3]")[0]))
    client.start()
    assert gate.entered.wait(20)
    assert answers == []

    gate.opened.set()
    client.join(20)

    assert answers == [200]
    assert len(gate.taken) == 3


def test_a_full_flow_answers_429_with_a_time_to_wait(listening):
    source, gate, _ = listening(max_waiting=2)
    gate.opened.clear()
    client = threading.Thread(target=send, args=(source, "[1, 2]"))
    client.start()
    assert gate.entered.wait(20)

    status, message, headers = send(source, "[3]")

    assert (status, message, headers["Retry-After"]) == (429, "the flow is full", "1")
    gate.opened.set()
    client.join(20)


def test_a_request_that_is_not_settled_in_time_gets_503(listening):
    source, gate, _ = listening(timeout=0.2)
    gate.opened.clear()

    status, _, headers = send(source, "[1]")

    assert (status, headers["Retry-After"]) == (503, "1")


def test_a_request_that_the_flow_leaves_unread_gets_503(listening):
    source, gate, flow = listening()
    gate.opened.clear()
    answers = []
    client = threading.Thread(target=lambda: answers.append(send(source, "[1, 2]")[0]))
    client.start()
    assert gate.entered.wait(20)
    flow.cancel()
    gate.opened.set()
    client.join(20)

    assert answers == [503]


@pytest.mark.parametrize(
    ("request_options", "status"),
    [
        ({"body": "x" * 2000}, 413),
        ({"body": "{"}, 400),
        ({"body": b"\xff"}, 400),
        ({"body": "[" * 100_000, "kind": "application/json"}, 413),
        ({"body": "1", "method": "GET"}, 405),
        ({"body": "1", "path": "/other"}, 404),
        ({"body": "1", "Origin": "http://evil.example"}, 403),
    ],
)
def test_what_cannot_be_taken_is_refused(listening, request_options, status):
    source, gate, _ = listening(max_body=1000)

    assert send(source, **request_options)[0] == status
    assert gate.taken == []


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson", "text/plain"])
def test_a_body_may_have_the_largest_size_and_no_byte_more(listening, kind):
    source, _, _ = listening(max_body=1000)

    statuses = [send(source, "1" * size, kind)[0] for size in range(998, 1003)]

    assert statuses == [200, 200, 200, 413, 413]


@pytest.mark.parametrize("given", [None, "Bearer wrong", "secret", "Bearer secret-and-more"])
def test_a_missing_or_wrong_token_is_refused(listening, given):
    source, gate, _ = listening(token="secret")

    status, message, _ = send(source, "1", **({"Authorization": given} if given else {}))

    assert (status, gate.taken) == (401, [])
    assert "secret" not in message


def test_the_right_token_and_the_idempotency_key_are_taken(listening):
    source, gate, _ = listening(token="secret")

    status, _, _ = send(source, "1", Authorization="Bearer secret", Idempotency_Key="dev-1-2")

    assert status == 200
    assert gate.taken[0].attributes["idempotency_key"] == "dev-1-2"


def test_one_connection_too_many_is_closed(listening):
    source, _, _ = listening(max_connections=1)
    first = http.client.HTTPConnection("127.0.0.1", source.port, timeout=20)
    with contextlib.closing(first):
        first.request("POST", "/", "1")
        assert first.getresponse().read()

        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            send(source, "2")


def test_a_port_that_is_taken_fails_the_start(listening):
    source, _, _ = listening()

    with pytest.raises(FlowError, match="cannot listen on"):
        torvyn.Flow(Http(f"127.0.0.1:{source.port}"), Gate()).run()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"listen": "8080"}, "'8080' is not an address"),
        ({"listen": "0.0.0.0:8080"}, "without a token"),
        ({"path": "in"}, "no path of a URL"),
        ({"token": "a\nb"}, "a header cannot have"),
        ({"cert_file": "c.pem"}, "belong together"),
        ({"cert_file": "/no/such", "key_file": "/no/such"}, "cannot be loaded"),
    ],
)
def test_an_option_that_is_wrong_is_named(wrong, said):
    with pytest.raises(ContractError, match=said):
        Http().init(config_text(wrong))


def test_an_unexpected_end_of_the_server_s_loop_is_no_end_of_the_source(listening):
    source, gate, _ = listening()

    source._listener._loop.call_soon_threadsafe(exit)

    assert send(source, "1")[0] == 200
    assert [element.text for element in gate.taken] == ["1"]
