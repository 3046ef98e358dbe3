"""What a failure says: everything to the operator, nothing of the machinery to a client."""

from __future__ import annotations

import logging

import pytest

from fake_upstream import DONE, HELLO, delta, event, running, says, status
from torvyn.engine.openai.engine import OpenAI
from torvyn.engine.upstream_text import for_clients
from torvyn.errors import TorvynError

KEY = "sk-proj-Secret1234567890"
BEGUN = HELLO[:3]


def told(reply, **options):
    """The error of a request, and where the upstream was."""
    with running(reply) as upstream:
        place = upstream.url.removeprefix("http://").removesuffix("/v1")
        options = {"retries": 0, "api_key": KEY, **options}
        with OpenAI(base_url=upstream.url, model="m", **options) as engine:
            with pytest.raises(TorvynError) as caught:
                engine.complete("x")
            return caught.value, place


def cut(exchange_ends):
    async def reply(exchange):
        await exchange.begin()
        await exchange.chunk(*BEGUN)
        exchange_ends(exchange)

    return reply


async def hangs_up(exchange):
    exchange.reset()


FAULTS = {
    "reset": cut(lambda exchange: exchange.reset()),
    "closed": cut(lambda exchange: exchange.writer.close()),
    "hangs up": hangs_up,
    "garbage": says(*BEGUN, b"data: {http://10.0.0.7:8000 oops}\n\n"),
    "another kind": status(200, "see http://10.0.0.7/", "Content-Type: text/html"),
    "refused": status(400, '{"error": "call http://10.0.0.7:8000/v1"}'),
    "denied": status(401, f"wrong key {KEY[:8]}***, see http://10.0.0.7/keys"),
    "traceback": says(*BEGUN, event({"error": {"message": 'File "/srv/vllm/x.py", line 3'}})),
    "library": says(*BEGUN, event({"error": {"message": "aiohttp.ClientError: 10.0.0.7:80"}})),
    "no finish": says(*BEGUN, DONE),
    "no json": status(500, "Traceback (most recent call last)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_message_names_an_address_a_key_or_a_library(fault):
    error, place = told(FAULTS[fault])

    shown = f"{error} {error.message} {error.hint or ''}"
    secrets = (place, "127.0.0.1", "10.0.0.7", "http://", "sk-proj", "aiohttp", "Traceback", "/srv")
    assert [secret for secret in (*secrets, "Errno", "Client") if secret in shown] == []
    assert place in error.__notes__[0]
    assert KEY not in error.__notes__[0]


def test_what_the_upstream_says_of_the_request_is_told():
    error, _ = told(status(400, '{"error": {"message": "top_k must be 1 or more"}}'))

    assert error.message == "the upstream answered 400: top_k must be 1 or more"


@pytest.mark.parametrize(
    "line",
    [
        b'error: {"code": 500, "message": "the slot is gone", "type": "server_error"}\n\n',
        b'error:{"error": {"code": 500, "message": "the slot is gone"}}\r\n\r\n',
        b"error: the slot is gone\n\n",
    ],
    ids=["llama.cpp", "nested", "no json"],
)
def test_an_error_line_of_llama_cpp_keeps_its_message(line):
    error, _ = told(says(*BEGUN, line))

    assert error.code == f"engine.upstream-{'busy' if b'500' in line else 'error'}"
    assert error.message.startswith("the upstream broke off: the slot is gone")


def test_the_log_has_what_clients_do_not_see(caplog):
    caplog.set_level(logging.INFO)
    error, place = told(FAULTS["reset"])

    (record,) = [one for one in caplog.records if one.name == "torvyn.engine"]
    assert (record.event, record.code) == ("upstream.failure", "engine.upstream-cut")
    assert f"{error.message}: {place}: ended: " in record.getMessage()
    assert KEY not in record.getMessage()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the model is overloaded", "the model is overloaded"),
        ("top_k: expected 1.5, got 0", "top_k: expected 1.5, got 0"),
        ("see https://api.example.com/docs?x=1 now", "see [address] now"),
        ("no route to 192.168.1.4:8000", "no route to [address]"),
        ("no route to [::1]:8000", "no route to [address]"),
        ("gpu-3.cluster.internal is away", "[address] is away"),
        ("upstream.host:8000 and UPSTREAM.HOST", "[address] and [address]"),
        ("bad key sk-abcdef123456", "bad key ***"),
        ("KeyError: 'x'", ""),
        ("a key_of_the_cache is gone", "a key_of_the_cache is gone"),
        (f"{'word ' * 58}at 192.168.123.234:8000", f"{'word ' * 58}at [addres..."),
        ("open(/etc/passwd/x) failed at /usr/lib/python3", ""),
        ("std::bad_alloc", ""),
    ],
)
def test_words_for_clients(text, shown):
    assert for_clients(text, host="upstream.host") == shown


def test_a_line_of_an_upstream_may_be_as_long_as_is_said():
    long = "x" * 3000
    replies = says(delta(long), delta(finish="stop"), DONE)
    with running(replies) as upstream:
        short = {"base_url": upstream.url, "model": "m", "max_line_bytes": 2000}
        with OpenAI(**short) as engine, pytest.raises(TorvynError) as caught:
            engine.complete("x")
        with OpenAI(**{**short, "max_line_bytes": 4000}) as engine:
            assert engine.complete("x").text == long

    assert caught.value.code == "engine.upstream-garbage"
    assert "max_line_bytes" in caught.value.hint


def test_a_line_may_be_longer_than_an_event_is_by_default():
    long = "x" * (9 << 20)
    with (
        running(says(delta(long), delta(finish="stop"), DONE)) as upstream,
        OpenAI(base_url=upstream.url, model="m", max_line_bytes=10 << 20) as engine,
    ):
        assert len(engine.complete("x").text) == len(long)
