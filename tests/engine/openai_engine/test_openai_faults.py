"""Faults of an upstream: each ends in a typed error, no text is lost before it, nothing runs on."""

from __future__ import annotations

import asyncio
import json
import logging
import socket

import pytest
from observed_engines import nothing_runs, wait_until

from fake_upstream import DONE, HELLO, delta, event, running, says, status
from torvyn.engine.openai.engine import OpenAI
from torvyn.errors import DeadlineExceeded, InvalidInput, MissingError, TorvynError

KEY = "sk-very-secret"
QUICK = {"retries": 0, "first_token_timeout_s": 5.0, "idle_timeout_s": 5.0}


def outcome(reply, asked="x", n=1, **options):
    """The error of a request, the text that came before it, and the reasons it closed with."""
    seen, reasons = [], []
    with running(reply) as upstream:
        engine = OpenAI(base_url=upstream.url, model="m", api_key=KEY, **{**QUICK, **options})
        with engine, pytest.raises(TorvynError) as caught:
            for one in engine.generate(asked, n=n):
                seen.append(one.text)
                reasons += [one.finish_reason] * bool(one.finish_reason)
        wait_until(lambda: upstream.open == 0)
        wait_until(lambda: nothing_runs(engine))
    return caught.value, "".join(seen), reasons


def raw(*pieces: bytes, cut: str = "close"):
    """An answer of these raw bytes, after which the connection goes."""

    async def reply(exchange):
        await exchange.begin()
        await exchange.chunk(*pieces)
        if cut == "reset":
            exchange.reset()
        else:
            exchange.writer.close()

    return reply


BEGUN = HELLO[:3]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (raw(*BEGUN), "engine.upstream-cut"),
        (raw(*BEGUN, cut="reset"), "engine.upstream-cut"),
        (raw(*BEGUN, b'data: {"choi'), "engine.upstream-cut"),
        (says(*BEGUN), "engine.upstream-cut"),
        (says(*BEGUN, b'data: {"choices": [{"ind'), "engine.upstream-cut"),
        (says(*BEGUN, b"data: {not json}\n\n"), "engine.upstream-garbage"),
        (says(*BEGUN, event([1])), "engine.upstream-garbage"),
        (says(*BEGUN, event({"choices": 7})), "engine.upstream-garbage"),
        (says(*BEGUN, delta({"content": {"a": 1}})), "engine.upstream-garbage"),
        (says(*BEGUN, event({"error": {"message": "boom"}})), "engine.upstream-error"),
        (says(*BEGUN, b"event: error\ndata: boom\n\n"), "engine.upstream-error"),
        (says(*BEGUN, b"data: " + b"x" * (2 << 20)), "engine.upstream-garbage"),
        (says(*BEGUN, b"data: \xff\xfe\x00\n\n"), "engine.upstream-garbage"),
        (says(*BEGUN, delta("x", index=5)), "engine.upstream-garbage"),
        (says(*BEGUN, DONE), "engine.upstream-cut"),
        (says(*BEGUN, b'error: {"message": "boom"}\n\n'), "engine.upstream-error"),
        (says(*BEGUN, delta(finish="insufficient_system_resource")), "engine.upstream-error"),
        (says(*BEGUN, delta(finish="error"), DONE), "engine.upstream-error"),
    ],
    ids=[
        "closed",
        "reset",
        "closed inside an event",
        "ended without a finish",
        "ended inside an event",
        "no json",
        "no object",
        "no choices",
        "no text",
        "error frame",
        "error event",
        "endless line",
        "bad bytes",
        "unknown choice",
        "done without a finish",
        "error line",
        "finished without resources",
        "finished as error",
    ],
)
def test_an_answer_that_breaks_off_gives_its_text_and_then_an_error(reply, code):
    error, text, reasons = outcome(reply)

    assert error.code == code
    assert text == "Hello"
    assert reasons == ["error"]
    assert error.message.isprintable()


def test_one_choice_that_never_ends_is_no_answer():
    parts = (delta("a", 0, "stop"), delta("b", 1))

    error, text, reasons = outcome(says(*parts), n=2)

    assert (error.code, text) == ("engine.upstream-cut", "ab")
    assert reasons == ["stop", "error"]


@pytest.mark.parametrize(
    "kind", ["text/html", "application/octet-stream", "application/x-ndjson", "text/plain"]
)
def test_an_answer_of_another_kind_is_refused_and_shown(kind):
    error, *_ = outcome(status(200, "<b>\x1bhi</b>", f"Content-Type: {kind}"))

    assert (error.code, error.message) == (
        "engine.upstream-garbage",
        "the upstream sent something other than an event stream",
    )
    assert f"`{kind}` instead of an event stream: <b>\\x1bhi</b>" in error.__notes__[0]


@pytest.mark.parametrize("body", ["nothing", "[]", '{"choices": [{"message": {"content": "x"}}]}'])
def test_a_whole_answer_that_is_none_is_an_error(body):
    error, *_ = outcome(status(200, body, "Content-Type: application/json"))

    assert error.code in ("engine.upstream-garbage", "engine.upstream-cut")


def test_bytes_that_do_not_unpack_are_an_error():
    error, *_ = outcome(
        status(200, "no gzip", "Content-Type: text/event-stream", "Content-Encoding: gzip")
    )

    assert error.code == "engine.upstream-garbage"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, "engine.upstream-refused"),
        (301, "engine.upstream-redirect"),
        (401, "engine.upstream-denied"),
        (403, "engine.upstream-denied"),
        (404, "engine.model-missing"),
        (422, "engine.upstream-refused"),
        (429, "engine.upstream-busy"),
        (500, "engine.upstream-busy"),
        (501, "engine.upstream-failed"),
        (503, "engine.upstream-busy"),
    ],
)
def test_an_error_as_a_status_is_told_with_what_the_upstream_says(code, kind):
    body = json.dumps({"error": {"message": f"because\x1b of {KEY} {'x' * 1000}"}})

    error, text, _ = outcome(status(code, body, "Location: http://elsewhere/"))

    assert (error.code, text) == (kind, "")
    (note,) = error.__notes__
    assert f"answered {code}: because\\x1b of ***" in note
    assert max(len(note), len(error.message)) < 500
    is_for_the_operator = code in (301, 401, 403)
    assert ("because" in error.message) is not is_for_the_operator


def test_the_model_that_is_not_there_is_missing():
    error, *_ = outcome(status(404, '{"detail": "model `m` not found"}'))

    assert isinstance(error, MissingError)
    assert "model `m` not found" in error.message


async def _says_nothing(exchange):
    await exchange.begin()
    await exchange.until_left()


async def _stops_saying(exchange):
    await exchange.begin()
    await exchange.chunk(*BEGUN)
    while not exchange.reader.at_eof():
        await exchange.chunk(b": still here\n\n")
        await asyncio.sleep(0.01)


async def _no_head(exchange):
    await exchange.until_left()


@pytest.mark.parametrize("reply", [_says_nothing, _no_head], ids=["no token", "no head"])
def test_the_first_token_has_a_time_limit(reply):
    error, *_ = outcome(reply, first_token_timeout_s=0.05)

    assert isinstance(error, DeadlineExceeded)
    assert error.code == "engine.upstream-slow"
    assert "first_token_timeout_s" in (error.hint or "")


def test_the_next_token_has_a_time_limit_that_comments_do_not_extend():
    error, text, _ = outcome(_stops_saying, idle_timeout_s=0.1)

    assert (error.code, text) == ("engine.upstream-slow", "Hello")
    assert "idle_timeout_s" in (error.hint or "")


def test_an_upstream_that_has_said_all_may_leave_the_end_out():
    async def lingers(exchange):
        await exchange.begin()
        await exchange.chunk(*HELLO[:-1])
        await exchange.until_left()

    with running(lingers) as upstream:
        engine = OpenAI(base_url=upstream.url, model="m", idle_timeout_s=0.05)

        assert engine.complete("x").text == "Hello"
        wait_until(lambda: upstream.open == 0)
        engine.close()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_an_upstream_that_is_down_is_unavailable(host):
    engine = OpenAI(base_url=f"http://{host}:{free_port()}/v1", model="m", retries=0)
    with engine, pytest.raises(TorvynError) as caught:
        engine.complete("x")

    assert caught.value.code == "engine.upstream-down"
    assert caught.value.message == "the upstream cannot be reached"
    assert host in caught.value.__notes__[0]


def test_the_key_is_sent_and_shown_nowhere(caplog):
    caplog.set_level(logging.DEBUG)
    with running(says(*HELLO)) as upstream:
        engine = OpenAI(base_url=upstream.url, model="m", api_key=KEY)
        engine.complete("x")
        told = [repr(engine), str(engine.describe()), caplog.text]
        engine.close()

    assert upstream.exchanges[0].header("authorization") == f"Bearer {KEY}"
    assert not [text for text in told if KEY in text]


def test_the_key_may_stand_in_the_environment(monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with running(says(*HELLO)) as upstream:
        engine = OpenAI(base_url=upstream.url, model="m", api_key_env="MY_KEY")
        engine.complete("x")
        engine.close()

    assert upstream.exchanges[0].header("authorization") == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": ""},
        {"base_url": "ftp://x/v1"},
        {"base_url": "http://me:secret@x/v1"},
        {"api": "chats"},
        {"client": "httpx"},
        {"retries": -1},
        {"idle_timeout_s": 0},
        {"max_line_bytes": 0},
    ],
)
def test_options_that_do_not_fit_are_refused_and_not_repeated(options, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InvalidInput) as caught:
        OpenAI(**{"base_url": "http://x/v1", "model": "m", **options})

    assert caught.value.code == "engine.bad-option"
    assert "secret" not in caught.value.render()


def test_messages_cannot_be_asked_of_completions():
    error, *_ = outcome(says(DONE), asked=[{"role": "user", "content": "x"}], api="completions")

    assert error.code == "engine.request-invalid"
