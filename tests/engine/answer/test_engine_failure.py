"""An engine that fails in a way of its own: what its reader gets, and what only the log has."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from torvyn.engine import ChoiceStep, Engine, Request, Step
from torvyn.errors import Internal


class Breaks(Engine):
    name = "breaks"

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        yield Step((ChoiceStep(text="word"),))
        raise ValueError("cannot reach http://10.0.0.7:8000")


def test_the_words_of_a_library_are_in_the_log_and_not_in_the_message(caplog):
    caplog.set_level(logging.ERROR, "torvyn.engine")
    with pytest.raises(Internal) as caught:
        Breaks().complete("x", request_id="mine")

    error = caught.value
    assert (error.code, error.message) == ("engine.failed", "the engine failed: ValueError")
    assert isinstance(error.__cause__, ValueError)
    assert error.__notes__ == ["ValueError: cannot reach http://10.0.0.7:8000"]
    (record,) = caplog.records
    assert (record.request_id, record.exc_info[1]) == ("mine", error.__cause__)
