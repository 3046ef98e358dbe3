"""The `mlc` engine on a fake of the interface that `mlc_llm` documents.

`chat.completions.create(..., stream=True, request_id=...)`, sync or async, gives OpenAI chunks as
objects with `model_dump_json`; `abort(request_id)` ends one of them; `terminate()` ends the engine.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from types import SimpleNamespace

import pytest
from observed_engines import wait_until

from torvyn.engine import open
from torvyn.engine.mlc import MLC
from torvyn.errors import InvalidInput, MissingError, TorvynError
from torvyn.protocol.frames import Usage


class Chunk:
    def __init__(self, **fields):
        self._fields = fields

    def model_dump_json(self):
        return json.dumps(self._fields)


def chunk(text=None, finish=None, **more):
    delta = {"role": "assistant", "content": text}
    return Chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish, **more}])


ENTRY = {"token": "x", "logprob": -1.0, "bytes": [120], "top_logprobs": []}
HELLO = [
    chunk("Hel"),
    chunk("lo", logprobs={"content": [ENTRY]}),
    chunk(finish="length"),
    Chunk(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2}),
]


class FakeMLC:
    """`MLCEngine`, as far as it is documented."""

    def __init__(self, chunks=HELLO, lasts=False):
        self.asked, self.aborted, self.terminated = [], [], False
        self._chunks, self._lasts = chunks, lasts
        self._ended = threading.Event()
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))
        self.completions = SimpleNamespace(create=self.create)

    def create(self, **asked):
        self.asked.append(asked)
        return self._stream()

    def _stream(self):
        yield from self._chunks
        while self._lasts and not self._ended.wait(0.001):
            yield chunk("more")

    def abort(self, request_id):
        self.aborted.append(request_id)
        self._ended.set()

    def terminate(self):
        self.terminated = True


class FakeAsyncMLC(FakeMLC):
    """`AsyncMLCEngine`, as far as it is documented."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.acreate))
        self.completions = SimpleNamespace(create=self.acreate)

    async def acreate(self, **asked):
        self.asked.append(asked)
        return self._astream()

    async def _astream(self):
        for one in self._stream():
            yield one
            await asyncio.sleep(0)

    async def abort(self, request_id):
        super().abort(request_id)


@pytest.fixture(params=[FakeMLC, FakeAsyncMLC])
def fake(request):
    return request.param


@pytest.mark.promise("responses.mlc")
def test_the_fields_of_the_stream_are_the_deltas(fake):
    engine = MLC(engine=fake())

    deltas = list(engine.generate("x", logprobs=True))

    assert [delta.text for delta in deltas] == ["Hel", "lo", "", ""]
    assert deltas[1].delta_logprob_json_strs == [json.dumps(ENTRY)]
    assert [delta.finish_reason for delta in deltas] == [None, None, "length", None]
    assert json.loads(deltas[-1].request_final_usage_json_str)["total_tokens"] == 5
    assert {delta.index for delta in deltas} == {0}


def test_what_is_asked_is_what_the_interface_takes(fake):
    mlc = fake()
    MLC(engine=mlc).complete("Hello", max_tokens=3, seed=1, stop="x", request_id="mine")

    (asked,) = mlc.asked
    assert asked.items() >= {"stream": True, "max_tokens": 3, "seed": 1, "stop": ["x"]}.items()
    assert (asked["request_id"], asked["model"]) == ("mine", None)
    assert asked["messages"] == [{"role": "user", "content": "Hello"}]


def test_a_prompt_may_go_to_completions(fake):
    mlc = fake([Chunk(choices=[{"index": 0, "text": "Hi", "finish_reason": "stop"}])])

    assert MLC(engine=mlc, api="completions").complete("Hello").text == "Hi"
    assert mlc.asked[0]["prompt"] == "Hello"


@pytest.mark.promise("responses.mlc")
def test_leaving_the_loop_aborts_the_request(fake):
    mlc = fake(HELLO[:2], lasts=True)
    for _ in MLC(engine=mlc).generate("x", request_id="mine"):
        break

    wait_until(lambda: "mine" in mlc.aborted)
    wait_until(lambda: not [t for t in threading.enumerate() if t.name == "torvyn-engine"])


def test_a_stop_string_aborts_the_request(fake):
    mlc = fake(HELLO[:2], lasts=True)

    whole = MLC(engine=mlc).complete("x", stop="l", include_stop=True, request_id="mine")

    assert (whole.text, whole.choices[0].matched_stop) == ("Hel", "l")
    assert "mine" in mlc.aborted


def test_a_stream_without_a_finish_is_cut(fake):
    with pytest.raises(TorvynError) as caught:
        MLC(engine=fake(HELLO[:1])).complete("x")

    assert caught.value.code == "engine.upstream-cut"


def test_an_error_of_the_engine_is_told(fake):
    mlc = fake()
    mlc._stream = _fails

    with pytest.raises(TorvynError, match="out of memory") as caught:
        MLC(engine=mlc).complete("x")
    assert caught.value.code == "engine.failed"


def _fails():
    yield chunk("a")
    raise RuntimeError("out of memory")


def test_usage_is_mlcs(fake):
    assert MLC(engine=fake()).complete("x").usage == Usage(3, 2)


def test_an_engine_that_was_given_is_not_ended(fake):
    mlc = fake()
    with MLC(engine=mlc) as engine:
        engine.complete("x")

    assert not mlc.terminated


def test_an_engine_that_was_made_for_a_model_ends_with_it(monkeypatch):
    made = FakeAsyncMLC()
    package = SimpleNamespace(AsyncMLCEngine=lambda model: made)
    monkeypatch.setitem(sys.modules, "mlc_llm", package)
    with open("mlc", model="m") as engine:
        assert engine.complete("x").text == "Hello"

    assert made.terminated


@pytest.mark.promise("responses.mlc")
def test_without_the_package_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlc_llm", None)

    with pytest.raises(MissingError) as caught:
        open("mlc", model="m")
    assert caught.value.code == "engine.package-missing"


def test_a_model_or_an_engine_is_given_and_not_both():
    with pytest.raises(InvalidInput):
        MLC()
    with pytest.raises(InvalidInput):
        MLC("m", engine=FakeMLC())
