"""Requests that share a model: the batch of the engine `transformers`."""

from __future__ import annotations

import asyncio
import threading

import pytest
from observed_engines import SOON_S, wait_until
from test_transformers import pytestmark as needs_transformers
from test_transformers import tiny_model, tokenizer, whole

from torvyn.engine import open
from torvyn.errors import InvalidInput, Unavailable

pytestmark = needs_transformers


def batched(**options):
    return open("transformers", model=tiny_model(), tokenizer=tokenizer(), batching=True, **options)


@pytest.fixture(scope="module")
def engine():
    with batched() as engine:
        yield engine


class Gate:
    """Holds the model before a pass until it is opened, and counts passes."""

    def __init__(self, engine):
        self.passes = 0
        self._open = threading.Event()
        self._open.set()
        engine._model.model.register_forward_pre_hook(self._enter)

    def _enter(self, *_):
        assert self._open.wait(SOON_S)
        self.passes += 1

    def shut(self):
        self._open.clear()

    def open(self):
        self._open.set()


def test_the_first_token_does_not_wait_for_another_request_to_finish(engine):
    async def first_of_two():
        long = aiter(engine.generate("Hello", max_tokens=50, temperature=0))
        await anext(long)
        async for delta in engine.generate("x", max_tokens=1, temperature=0):
            if delta.token_ids:
                break
        rest = [delta async for delta in long]
        return delta, rest

    delta, rest = asyncio.run(first_of_two())

    assert delta.text == whole("x", 1)
    # The other request was still generating: most of its tokens came afterwards.
    assert sum(len(one.token_ids or ()) for one in rest) > 1


def test_requests_are_computed_together():
    with batched() as engine:
        gate = Gate(engine)

        async def many():
            gate.shut()
            tasks = [
                asyncio.ensure_future(engine.acomplete("Hello", max_tokens=20, temperature=0))
                for _ in range(8)
            ]
            await asyncio.to_thread(wait_until, lambda: engine._batch.open_sequences == 8)
            gate.open()
            return {answer.text for answer in await asyncio.gather(*tasks)}

        assert asyncio.run(many()) == {whole("Hello", 20)}
        # 20 passes for all eight, one to probe the model, and those in which the first of them
        # began alone; one at a time would take 160.
        assert gate.passes < 50


def test_more_requests_than_the_batch_holds_wait_and_finish():
    with batched(max_batch=2) as engine:

        async def many():
            asks = [engine.acomplete("Hello", max_tokens=5, temperature=0) for _ in range(7)]
            return [answer.text for answer in await asyncio.gather(*asks)]

        assert asyncio.run(many()) == [whole("Hello", 5)] * 7


def test_a_seeded_answer_does_not_depend_on_the_requests_beside_it(engine):
    options = {"max_tokens": 20, "temperature": 1.0, "seed": 7}
    alone = engine.complete("Hello", **options).text

    async def crowded():
        others = [
            engine.acomplete("Hello", max_tokens=20, temperature=temperature, seed=seed)
            for seed, temperature in enumerate((0, 0.5, None, 1.5))
        ]
        mine, *_ = await asyncio.gather(engine.acomplete("Hello", **options), *others)
        return mine.text

    assert asyncio.run(crowded()) == alone


def test_seeds_sample_from_the_models_distribution(engine):
    import torch

    from torvyn.engine.transformers.sampler import Noise, Sampling

    scores = torch.tensor([2.0, 1.0, 0.0, -1.0])
    keys = torch.tensor(
        [Sampling(1.0, seed=seed).key(3) for seed in range(3000)], dtype=torch.int32
    )
    made = Noise(is_static=True).apply(scores.expand(3000, -1), keys)
    counts = made.argmax(dim=-1).bincount(minlength=4) / 3000

    assert counts.tolist() == pytest.approx(scores.softmax(-1).tolist(), abs=0.03)


def test_top_k_keeps_as_many_tokens_or_all():
    import torch

    from torvyn.engine.transformers.sampler import TopK

    scores = torch.tensor([[1.0, 4.0, 3.0, 2.0]] * 4)
    made = TopK(is_static=True).apply(scores, torch.tensor([0, 1, 2, 9], dtype=torch.int32))

    assert made.isfinite().sum(dim=-1).tolist() == [4, 1, 2, 4]


def test_top_p_keeps_the_likeliest_tokens():
    import torch

    from torvyn.engine.transformers.sampler import TopP

    scores = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]] * 3))
    made = TopP(is_static=True).apply(scores, torch.tensor([1.0, 0.7, 0.01]))

    assert made.isfinite().sum(dim=-1).tolist() == [4, 2, 1]


def test_log_probabilities_are_the_same_in_a_batch_and_alone(engine):
    def entries(answer):
        return [
            (entry["id"], pytest.approx(entry["logprob"], abs=1e-4))
            for entry in answer.choices[0].logprobs
        ]

    options = {"max_tokens": 6, "temperature": 0, "logprobs": True, "top_logprobs": 2}
    alone = engine.complete("Hello", **options)

    async def crowded():
        asks = [engine.acomplete(prompt, **options) for prompt in ("Hello", "x", "abc")]
        return (await asyncio.gather(*asks))[0]

    assert entries(asyncio.run(crowded())) == entries(alone)


def test_an_abandoned_answer_leaves_the_batch():
    with batched() as engine:
        gate = Gate(engine)

        async def leave():
            async for delta in engine.generate("Hello"):
                if delta.token_ids:
                    break

        asyncio.run(leave())
        wait_until(lambda: not engine._batch.open_sequences)
        # Once the library has taken the cancellation, it computes nothing more.
        scheduler = engine._batch._manager.batch_processor.scheduler
        wait_until(lambda: not scheduler.has_pending_requests())
        before = gate.passes

        assert engine.complete("x", max_tokens=1, temperature=0).text == whole("x", 1)
        assert gate.passes == before + 1


def test_closing_ends_running_answers():
    engine = batched()
    gate = Gate(engine)

    async def closed():
        gate.shut()
        task = asyncio.ensure_future(engine.acomplete("Hello"))
        await asyncio.to_thread(wait_until, lambda: engine._batch.open_sequences)
        gate.open()
        await asyncio.to_thread(engine.close)
        return (await asyncio.wait_for(task, SOON_S)).finish_reason

    assert asyncio.run(closed()) in ("cancelled", "length")
    assert not engine._batch._manager.is_running()


def test_a_failed_pass_is_an_error_and_the_next_request_starts_the_batch_again():
    with batched() as engine:
        fails = [True]

        def fail(*_):
            if fails:
                raise RuntimeError("out of memory at 0xdead")

        engine._model.model.register_forward_pre_hook(fail)
        with pytest.raises(Unavailable, match=r"^the model failed$") as raised:
            engine.complete("Hello", max_tokens=2)
        assert raised.value.code == "engine.failed"
        assert "0xdead" in str(raised.value.__cause__)

        fails.clear()
        wait_until(lambda: not engine._batch._manager.is_running())
        assert engine.complete("Hello", max_tokens=3, temperature=0).text == whole("Hello", 3)


def test_a_closed_event_loop_takes_its_requests_with_it(engine):
    async def begin():
        stream = aiter(engine.generate("Hello"))
        await anext(stream)
        return stream

    loop = asyncio.new_event_loop()
    stream = loop.run_until_complete(begin())
    loop.close()
    wait_until(lambda: not engine._batch.open_sequences)

    assert engine.complete("x", max_tokens=1, temperature=0).text == whole("x", 1)
    del stream


def test_a_model_that_cannot_be_batched_takes_turns_or_is_refused(caplog):
    def broken():
        model = tiny_model()

        def refuse(module, *_):
            if "paged" in module.config._attn_implementation:
                raise NotImplementedError("no paged attention")

        model.register_forward_pre_hook(refuse)
        return model

    with open("transformers", model=broken(), tokenizer=tokenizer()) as engine:
        assert engine.describe()["batching"] is False
        assert engine.complete("Hello", max_tokens=4, temperature=0).text == whole("Hello", 4)
    assert "answered one at a time" in caplog.text

    with pytest.raises(InvalidInput, match="requests cannot share the model") as raised:
        open("transformers", model=broken(), tokenizer=tokenizer(), batching=True)
    assert raised.value.code == "engine.model-unusable"
