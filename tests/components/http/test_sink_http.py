"""The HTTP sink against a real server: bodies, idempotency keys, retries and rejections."""

import asyncio
import gzip
import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import sample
from scripted_server import ScriptedServer

import torvyn
from failing_once import UNEXPECTED, fail_once
from torvyn._contract.element import Context, Element
from torvyn._io.backoff import LONGEST_PAUSE_S
from torvyn.components import HttpSink as Http
from torvyn.components.config import config_text
from torvyn.components.http.batch_body import BodyEncoder
from torvyn.components.http.http_client import HttpClient
from torvyn.components.http.uplink import UNKNOWN_IN_A_ROW
from torvyn.errors import ContractError, InvalidInput, Unavailable
from torvyn.testing import CollectingSink


def readings(count, context=None):
    return [Element(json.dumps({"n": n}), sequence=n, context=context) for n in range(count)]


def test_a_batch_is_one_request(server, sink):
    sink(server.url).push(*readings(3))

    assert [json.loads(body) for body in server.bodies] == [[{"n": 0}, {"n": 1}, {"n": 2}]]
    assert server.received[0]["Content-Type"] == "application/json"


def test_ndjson_has_one_line_per_element(server, sink):
    sink(server.url, format="ndjson").push(Element('{"a":\n1}'), Element("2"))

    assert server.bodies == [b'{"a": 1}\n2\n']


def test_raw_sends_each_payload_alone_with_its_content_type(server, sink):
    sink(server.url, format="raw").push(Element("a"), Element(b"\x00", content_type="image/x"))

    assert server.bodies == [b"a", b"\x00"]
    assert server.received[1]["Content-Type"] == "image/x"


def test_a_batch_over_the_limits_is_divided_in_order(server, sink):
    sink(server.url, max_batch=2, format="ndjson").push(*readings(5))
    sink(server.url, max_body=16, format="ndjson").push(*readings(3))

    assert [body.count(b"\n") for body in server.bodies] == [2, 2, 1, 1, 1, 1]


@given(st.data())
def test_a_body_takes_what_fits_and_never_exceeds_the_limit(data):
    format, outer = data.draw(st.sampled_from([("json-array", 2), ("ndjson", 1), ("raw", 0)]))
    limit = data.draw(st.integers(1, 30))
    sizes = data.draw(st.lists(st.integers(1, limit + 2), min_size=1, max_size=8))
    encoder = BodyEncoder(format, "dev", gzip=False, max_count=100, max_bytes=limit)

    elements = [Element("1" * size) for size in sizes]
    parts = encoder.parts([(at, encoder.payload(each)) for at, each in enumerate(elements)])
    bodies = [
        encoder.body([elements[at] for at, _ in part], [payload for _, payload in part])
        for part in parts
    ]

    counts = [1] * len(sizes) if format == "raw" else divide(sizes, limit - outer)
    assert [body.element_count for body in bodies] == counts
    assert all(len(body.data) <= limit or body.element_count == 1 for body in bodies)


def divide(sizes, room):
    """How many elements each body takes, with a byte between each two."""
    counts, left = [], -1
    for size in sizes:
        left -= size + 1
        if left < 0:
            counts.append(0)
            left = room - size
        counts[-1] += 1
    return counts


NO_JSON = ['1},{"x":2', "1,2", "1]", "[1", "", " ", "NaN", "-Infinity", '{"a":NaN}', "{'a':1}"]
NO_JSON += ["01", "1 2", "nul", '"', '"\n"', "1//", "\ufeff1", b"\xff", b'{"a": 1', "[" * 100_000]
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("payload", NO_JSON)
def test_a_payload_that_is_no_json_is_refused_with_its_reason(server, sink, payload):
    with pytest.raises(InvalidInput, match=r"not valid JSON|not UTF-8"):
        sink(server.url).push(Element("1"), Element(payload))
    assert server.bodies == [b"[1]"]


@settings(deadline=None, max_examples=sample(20, full=500))
@given(st.lists(JSON.map(json.dumps) | st.sampled_from(NO_JSON), max_size=8))
def test_the_collector_reads_the_good_records_and_no_other(payloads):
    letters, server = CollectingSink(), ScriptedServer()
    flow = torvyn.Flow()
    flow.add("values", torvyn.source(payloads))
    policy = {"policy": "dead-letter", "to": "letters"}
    flow.add("uplink", Http({"url": server.url}), on_error=policy)
    flow.add("letters", letters)

    flow.connect("values", "uplink").run()
    server.close()

    bad = [Element(payload).data for payload in payloads if payload in NO_JSON]
    assert [element.data for element in letters.elements] == bad
    accepted = [value for body in server.accepted for value in json.loads(body)]
    assert accepted == [json.loads(payload) for payload in payloads if payload not in NO_JSON]


def test_a_body_can_be_compressed(server, sink):
    sink(server.url, gzip=True).push(*readings(2))

    assert server.received[0]["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(server.bodies[0])) == [{"n": 0}, {"n": 1}]


def test_the_idempotency_key_names_the_elements(server, sink):
    in_log = Context("run-1", "main", "trace", epoch="boot-7")
    sink(server.url).push(*readings(3, in_log))
    sink(server.url).push(*readings(2, Context("run-2", "main", "trace")))
    sink(server.url).push(*readings(2))
    sink(server.url).push(*readings(2))

    keys = [headers["Idempotency-Key"] for headers in server.received]

    assert keys[0] == "dev-boot-7-0-2"
    assert keys[1] == "dev-run-2-0-1"
    assert len(keys[2]) == 32
    assert keys[2] == keys[3]


def test_all_requests_use_one_connection(server, sink):
    out = sink(server.url)
    for _ in range(5):
        out.push(*readings(1))

    assert len(server.connections) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 405, 407, 408, 425, 429, 500, 502, 503])
def test_what_says_nothing_about_the_elements_is_tried_again(server, sink, status):
    server.answer(status, status)
    out = sink(server.url)

    out.push(*readings(1))

    keys = {headers["Idempotency-Key"] for headers in server.received}
    assert (len(server.bodies), len(keys), len(out.delays)) == (3, 1, 2)
    assert out.sink.connection.status.state == "connected"


@pytest.mark.parametrize(
    ("status", "hint"),
    [(401, "token"), (403, "token"), (404, "path"), (405, "method"), (407, "proxy")],
)
def test_a_rejection_is_shown_and_logged_once_with_a_hint(server, sink, caplog, status, hint):
    server.answer(*[status] * 5)
    out, states = sink(server.url), []
    out.on_delay = lambda: states.append(out.sink.connection.status)

    out.push(*readings(1))

    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.event for record in errors] == ["connection.rejected"]
    assert hint in errors[0].getMessage()
    assert {(each.state, hint in each.hint) for each in states} == {("rejected", True)}
    assert out.sink.connection.status.hint is None


def test_a_rejection_is_not_news_because_its_text_has_a_new_id(server, sink, caplog):
    server.answer(401, text="request 1")
    server.answer(401, text="request 2")
    out = sink(server.url)

    out.push(*readings(1))

    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
    assert out.sink.connection.status.reason.endswith("401 Unauthorized: request 2")


def test_a_page_for_browsers_is_left_out_of_the_reason(server, sink):
    server.answer(502, text="<html><h1>Bad Gateway</h1></html>")
    out = sink(server.url)

    out.push(*readings(1))

    assert out.sink.connection.status.reason == "the server answered 502 Bad Gateway"


def test_a_rejection_may_be_an_error_with_a_hint(server, sink):
    server.answer(403)

    with pytest.raises(Unavailable, match="403 Forbidden") as caught:
        sink(server.url, on_disconnect="fail").push(*readings(1))
    assert "is allowed to do" in caught.value.hint


@pytest.mark.parametrize("status", [400, 413, 422])
def test_an_answer_about_the_elements_is_their_error(server, sink, status):
    server.answer(status)

    with pytest.raises(InvalidInput, match=f"the server answered {status}"):
        sink(server.url).push(*readings(1))


def test_a_redirect_is_not_followed(server, sink):
    server.answer(302, Location="http://127.0.0.1:1/elsewhere")

    with pytest.raises(Unavailable, match="302") as caught:
        sink(server.url, on_disconnect="fail").push(*readings(1))
    assert len(server.bodies) == 1
    assert "correct `url`" in caught.value.hint


@pytest.mark.parametrize("bad", [[0], [6], [3, 4], range(7)])
def test_a_refused_request_is_divided_until_the_elements_at_fault_are_found(server, sink, bad):
    server.rejects = lambda body: any(b'"n": %d}' % n in body for n in bad) and 422

    answer = asyncio.run(sink(server.url).sink.push_batch(readings(7)))

    assert [error is not None for error in answer] == [n in bad for n in range(7)]
    accepted = [value["n"] for body in server.accepted for value in json.loads(body)]
    assert accepted == [n for n in range(7) if n not in bad]
    assert len(server.bodies) <= min(1 + 2 * len(bad) * 3, 2 * 7)


def test_what_a_server_does_not_know_is_refused_once_it_has_accepted_something(server, sink):
    server.rejects = lambda body: b'"n": 1}' in body and 404
    out = sink(server.url)

    answer = asyncio.run(out.sink.push_batch(readings(1)))
    again = asyncio.run(out.sink.push_batch(readings(3)))

    assert answer is None
    assert [error is not None for error in again] == [False, True, False]


def test_a_path_that_is_gone_is_waited_for(server, sink):
    out = sink(server.url, format="raw")
    out.push(*readings(1))
    server.answer(*[404] * (UNKNOWN_IN_A_ROW + 3))

    answer = asyncio.run(out.sink.push_batch(readings(20)))

    assert sum(error is not None for error in answer) == UNKNOWN_IN_A_ROW
    assert len(out.delays) == 3


def test_a_content_type_that_is_no_header_is_refused(server, sink):
    bad = Element("a", content_type="text/\u20ac")

    answer = asyncio.run(sink(server.url, format="raw").sink.push_batch([bad, Element("b")]))

    assert [error is not None for error in answer] == [True, False]


def test_retry_after_is_the_shortest_delay(server, sink):
    server.answer(503, Retry_After="7")
    out = sink(server.url)

    out.push(*readings(1))

    assert out.delays == [7.0]


def test_a_delay_that_no_clock_can_wait_for_is_not_an_error_of_the_element(server, sink):
    server.answer(503, Retry_After="99999999999")
    out = sink(server.url)

    out.push(*readings(1))

    assert out.delays == [LONGEST_PAUSE_S]


def test_drain_knocks_the_server_over_9_each_429_halves_the_rate(server, sink):
    out = sink(server.url)
    rate = out.sink._uplink._rate
    rate.delay_s = lambda: 0.0
    out.push(*readings(400))
    server.answer(429, 429, 503)
    out.push(*readings(400))

    assert rate.limit_per_s is not None
    assert rate.limit_per_s == pytest.approx(rate._too_high_per_s / 8 * 1.1)


def test_a_server_that_is_away_at_first_gets_everything_later(sink):
    server = ScriptedServer()
    port = server.server_address[1]
    server.close()
    out = sink(server.url)
    tried = threading.Event()
    out.sink._uplink._backoff.next_delay_s = lambda at_least_s=0.0: tried.set() or 0.01
    pushing = threading.Thread(target=out.push, args=readings(2))
    pushing.start()
    assert tried.wait(20)
    again = ScriptedServer(port)
    pushing.join(20)

    assert [json.loads(body) for body in again.bodies] == [[{"n": 0}, {"n": 1}]]
    assert out.sink.connection.status.reason == "connection refused"
    again.close()


def test_a_call_that_is_cancelled_ends_at_once(server, sink):
    server.release.clear()
    out = sink(server.url)

    async def cancel():
        pushed = asyncio.ensure_future(out.sink.push(Element("1")))
        while not server.bodies:
            await asyncio.sleep(0.001)
        pushed.cancel()
        await asyncio.wait([pushed])
        return pushed.cancelled()

    assert asyncio.run(cancel())


def test_on_disconnect_fail_makes_the_first_failure_an_error(server, sink):
    server.answer(503)

    with pytest.raises(Unavailable, match="503 Service Unavailable"):
        sink(server.url, on_disconnect="fail").push(*readings(1))


def test_a_flow_skips_the_element_that_the_server_rejects(server):
    server.answer(400)
    flow = torvyn.Flow(["1", "2"], Http({"url": server.url, "format": "raw"}), on_error="skip")

    flow.run()

    assert (flow.statistics.emitted, flow.statistics.errors) == (1, 1)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_the_server_finds_wrong_becomes_a_dead_letter_and_the_rest_arrives(server, status):
    server.rejects = lambda body: b"bad" in body and status
    letters = CollectingSink()
    flow = torvyn.Flow()
    flow.add("values", torvyn.source(['"good"', '"bad"', '"fine"']))
    policy = {"policy": "dead-letter", "to": "letters"}
    flow.add("uplink", Http({"url": server.url}), on_error=policy)
    flow.add("letters", letters)

    flow.connect("values", "uplink").run()

    assert [element.text for element in letters.elements] == ['"bad"']
    accepted = [value for body in server.accepted for value in json.loads(body)]
    assert accepted == ["good", "fine"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"url": "ftp://host/"}, "not the address of a server"),
        ({"url": "http://me:pw@host/"}, "must not have a user or a password"),
        ({"url": "http://host:x/"}, "cannot be read"),
        ({"url": "http://host/a b"}, "must be encoded"),
        ({"ca_file": "ca.pem"}, "needs TLS"),
        ({"url": "https://h", "key_file": "k.pem"}, "belong together"),
        ({"url": "https://h", "ca_file": "/no/such/file"}, "cannot be loaded"),
        ({"headers": {"X-Evil": "a\r\nB: c"}}, "which is no header"),
    ],
)
def test_an_option_that_is_wrong_is_named(wrong, said):
    with pytest.raises(ContractError) as caught:
        Http().init(config_text({"url": "http://localhost", **wrong}))
    assert said in caught.value.message
    assert "pw@" not in caught.value.render()


@pytest.mark.parametrize("error", UNEXPECTED)
def test_an_unexpected_error_is_one_of_the_elements_and_the_next_ones_are_sent(
    server, sink, monkeypatch, error
):
    fail_once(monkeypatch, HttpClient, "request", error)
    opened = sink(server.url)

    with pytest.raises(Unavailable, match="unexpected error"):
        opened.push(*readings(1))
    opened.push(*readings(2))

    assert len(server.bodies) == 1
