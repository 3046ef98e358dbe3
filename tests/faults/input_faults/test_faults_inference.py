"""Answers that are left, broken off or blocked: the engine hears of it, and nothing gets out."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from benches.reliability.cases import inference
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import sample

from torvyn._flow.flow import Flow
from torvyn.components import Sentence
from torvyn.engine import Scripted

EVIL = "x\n[torvyn] error: forged\r\x1b[2J\x00\u2028data: forged\n\n"


def test_the_engine_hears_at_once_that_its_reader_has_left():
    delays_s, produced = inference.leave_delays(24)

    # Nothing but the reader's leaving ends it; how soon that is, the benchmark measures.
    assert max(delays_s) < 5.0
    assert max(produced) <= inference.BATCH


def test_no_answer_is_cut_in_silence():

    assert inference.truncations(5).value == 0


@settings(max_examples=sample(15, full=60), deadline=None)
@given(cuts=st.sets(st.integers(1, 24)), step=st.integers(1, 6), is_async=st.booleans())
def test_a_blocked_word_never_leaks_however_it_is_split(cuts, step, is_async):
    text = f"It is {inference.WORD} to say."
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    engine = Scripted([text[a:b] for a, b in pairwise(places)], step_tokens=step)
    generation = engine.generate("x", through=inference.guard_flow)
    answer = asyncio.run(generation.acomplete()) if is_async else generation.complete()

    assert answer.text in ("It is ", "It is")
    assert answer.finish_reason == "content_filter"


@settings(max_examples=sample(10, full=40), deadline=None)
@given(size=st.integers(1, 7))
def test_controls_in_tokens_come_out_as_they_went_in(size):
    engine = Scripted(EVIL, token_bytes=size)

    assert engine.complete("x", through=lambda: Flow(Sentence())).text == EVIL
