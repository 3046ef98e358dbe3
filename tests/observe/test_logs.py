"""Log output: two formats, no secrets, and no changes left behind."""

from __future__ import annotations

import io
import json
import logging
import re
import time

import pytest

from torvyn._observe.logs import Redactor, show_logs

LOGGER = logging.getLogger("torvyn.reactor")


def logged(format: str, level: int = logging.INFO, secrets: tuple[str, ...] = ()) -> str:
    """The output of three different records."""
    stream = io.StringIO()
    with show_logs(format, level, secrets, stream):
        LOGGER.info("begun", extra={"flow": "main", "event": "flow.started"})
        LOGGER.warning("key is %s", "hunter2", extra={"api_key": "sk-1", "node": "sink"})
        try:
            raise ValueError("no hunter2")
        except ValueError:
            LOGGER.exception("failed")
    return stream.getvalue()


def without_times(text: str) -> str:
    """The lines without the time at the start of each record."""
    return re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", "", text, flags=re.MULTILINE)


def test_every_record_has_an_rfc_3339_time() -> None:
    stream = io.StringIO()
    with show_logs("human", logging.WARNING, stream=stream):
        record = LOGGER.makeRecord("torvyn", logging.WARNING, "", 0, "late", (), None)
        record.created = 1_700_000_000.25
        LOGGER.handle(record)

    assert stream.getvalue() == "2023-11-14T22:13:20.250Z [torvyn] warning: late\n"


def test_people_read_a_line_a_record() -> None:
    assert without_times(logged("human", logging.WARNING)) == (
        "[torvyn] warning: key is hunter2\n[torvyn] error: failed: ValueError: no hunter2\n"
    )


def test_verbose_text_has_tracebacks() -> None:
    text = logged("human", logging.INFO)

    assert without_times(text).startswith("[torvyn] info: begun\n")
    assert "Traceback (most recent call last)" in text


def test_programs_read_json_with_the_extra_fields() -> None:
    begun, warned, failed = map(json.loads, logged("json").splitlines())

    assert begun["level"] == "info"
    assert (begun["message"], begun["flow"], begun["event"]) == ("begun", "main", "flow.started")
    assert warned["node"] == "sink"
    assert "ValueError" in failed["exception"]


@pytest.mark.parametrize("format", ["human", "json"])
def test_no_part_of_a_record_contains_a_secret(format: str) -> None:
    text = logged(format, secrets=("hunter2",))

    assert "hunter2" not in text
    assert "sk-1" not in text
    assert "[redacted]" in text


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("password=x1 user=me", "password=[redacted] user=me"),
        ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
        ('{"api_key": "x1"}', '{"api_key": "x1"}'),
        ("OPENAI_API_KEY=x1", "OPENAI_API_KEY=[redacted]"),
        ("--api-key=x1", "--api-key=[redacted]"),
        ("a_b-token=x1", "a_b-token=[redacted]"),
        ("a token passed", "a token passed"),
        ("20 tokens: 3 sentences", "20 tokens: 3 sentences"),
    ],
)
def test_values_with_a_secret_name_are_redacted(text: str, output: str) -> None:
    assert Redactor().text(text) == output


def test_a_text_of_many_names_is_read_once() -> None:
    began_s = time.thread_time()
    Redactor().text("secret-" * 20_000)
    assert time.thread_time() - began_s < 1.0


def test_the_longest_secret_goes_first() -> None:
    assert Redactor(["pass", "passphrase"]).text("the passphrase") == "the [redacted]"


@pytest.mark.parametrize("secret", ["", "e", "ed", "red"])
def test_a_very_short_value_is_not_a_secret(secret: str) -> None:
    assert Redactor([secret, "hunter2"]).text("redirected hunter2") == "redirected [redacted]"


def test_secrets_that_are_known_later_are_redacted_from_then_on() -> None:
    secrets: list[str] = []
    redactor = Redactor(lambda: secrets)
    assert redactor.text("hunter2") == "hunter2"

    secrets.append("hunter2")

    assert redactor.text("hunter2") == "[redacted]"


def test_nested_log_output_is_printed_once() -> None:
    outer, inner = io.StringIO(), io.StringIO()
    with show_logs("human", logging.WARNING, stream=outer):
        with show_logs("human", logging.WARNING, stream=inner):
            logging.getLogger("mine").warning("first")
            LOGGER.warning("second")
        LOGGER.warning("third")

    assert without_times(inner.getvalue()) == "[mine] warning: first\n[torvyn] warning: second\n"
    assert without_times(outer.getvalue()) == "[torvyn] warning: third\n"


def test_fields_are_redacted_in_depth() -> None:
    fields = {"headers": {"authorization": "x1"}, "hosts": ["a", "key-2"], "port": 80}

    assert Redactor(["key-2"]).field("request", fields) == {
        "headers": {"authorization": "[redacted]"},
        "hosts": ["a", "[redacted]"],
        "port": 80,
    }


def test_the_logger_is_afterwards_as_it_was() -> None:
    root = logging.getLogger("torvyn")
    before = (root.level, root.propagate, [*root.handlers])

    logged("json")

    assert (root.level, root.propagate, [*root.handlers]) == before
