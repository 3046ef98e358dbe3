"""Steps become deltas: exact text, one finish reason a choice, usage whatever ends it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn.engine import ChoiceStep, Engine, Request, Scripted, Step
from torvyn.engine.answer.response import Response
from torvyn.engine.delta import as_delta
from torvyn.errors import Internal, InvalidInput
from torvyn.protocol.frames import ToolCall, Usage

TEXT = st.text(alphabet=st.sampled_from("abcé漢👩\u200d "), max_size=30)


def response(**options) -> Response:
    return Response(Request.make("x", **options))


def taken(response: Response, *parts: ChoiceStep):
    """The deltas of one step."""
    return [as_delta(piece) for piece in response.pieces(Step(parts))]


def said(response: Response, *parts: ChoiceStep):
    """All deltas of steps with one part each, to the end."""
    deltas = [delta for part in parts for delta in taken(response, part)]
    return deltas + [as_delta(piece) for piece in response.end()]


def text_of(deltas, kind="text"):
    return "".join(delta.text for delta in deltas if delta.kind == kind)


def finishes(deltas):
    return [delta.finish_reason for delta in deltas if delta.finish_reason]


def pieces(text: str, cuts: list[int]) -> list[ChoiceStep]:
    data = text.encode()
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [ChoiceStep(data=data[a:b]) for a, b in pairwise(places)]


@pytest.mark.promise("responses.partial-characters")
@given(TEXT, st.lists(st.integers(0, 200), max_size=12))
def test_text_is_the_same_however_it_was_cut(text, cuts):
    deltas = said(response(), *pieces(text, cuts))

    assert text_of(deltas) == text
    assert finishes(deltas) == ["stop"]
    assert all(delta.text or delta.finish_reason or delta.usage for delta in deltas)


@given(TEXT, st.lists(st.integers(0, 200), max_size=12), st.sampled_from(["ab", "b ", "漢", "👩a"]))
def test_a_stop_string_cuts_the_same_place_however_the_text_was_cut(text, cuts, stop):
    made = response(stop=stop)

    deltas = said(made, *pieces(text, cuts))

    assert text_of(deltas) == text.partition(stop)[0]
    assert made.choices[0].matched_stop == (stop if stop in text else None)
    assert made.is_cut == (stop in text)


def test_the_engine_is_done_with_as_soon_as_a_stop_string_is_whole():
    made = response(stop="END")

    (delta,) = taken(made, ChoiceStep(text="text END more"))

    assert (delta.text, delta.finish_reason, delta.matched_stop) == ("text ", "stop", "END")
    assert made.is_cut
    assert taken(made, ChoiceStep(text="more")) == []


def test_the_stop_string_is_kept_when_asked_for():
    deltas = said(response(stop="END", include_stop=True), ChoiceStep(text="text END more"))

    assert text_of(deltas) == "text END"


@pytest.mark.parametrize("reason", ["length", "stop", "content_filter"])
def test_what_was_held_is_let_go_when_the_engine_ends(reason):
    deltas = said(response(stop="END"), ChoiceStep(text="text EN", finish_reason=reason))

    assert text_of(deltas) == "text EN"
    assert finishes(deltas) == [reason]


def test_a_cancellation_drops_what_was_held():
    made = response(stop="END")
    first = taken(made, ChoiceStep(text="text EN"))

    assert text_of(first + made.end("cancelled")) == "text "


@pytest.mark.promise("inference.length")
@pytest.mark.parametrize(("limit", "text"), [(1, "a"), (2, "ab"), (3, "abc"), (9, "abc")])
def test_max_tokens_is_kept_to_whatever_the_engine_does(limit, text):
    deltas = said(response(max_tokens=limit), *(ChoiceStep(text=letter) for letter in "abc"))

    assert text_of(deltas) == text
    assert finishes(deltas) == ["length" if limit <= 3 else "stop"]


def test_an_engine_that_ends_by_itself_on_the_last_token_has_stopped():
    deltas = said(response(max_tokens=1), ChoiceStep(text="a", finish_reason="stop"))

    assert finishes(deltas) == ["stop"]


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
@given(st.lists(st.sampled_from(["text", "reasoning", "end"]), max_size=9))
def test_an_engine_that_limits_itself_is_cut_above_its_limit_only(limit, kinds):
    made = Response(Request.make("x", max_tokens=limit), is_limited=True)
    steps = [ChoiceStep(text="ab", kind=kind) for kind in kinds if kind != "end"]
    deltas = said(made, *steps, ChoiceStep(tokens=0, finish_reason="tool_calls"))

    texts = [step for step in steps if step.kind == "text"]
    assert text_of(deltas) == "ab" * min(limit, len(texts))
    assert finishes(deltas) == ["length" if len(texts) > limit else "tool_calls"]
    assert made.is_cut == (len(texts) > limit)


@pytest.mark.promise("inference.empty-streams")
def test_an_empty_stream_has_one_finish_and_a_usage():
    finish, usage = said(response())

    assert (finish.finish_reason, finish.text) == ("stop", "")
    assert usage.usage == Usage()


@pytest.mark.promise("responses.finish-reasons")
def test_choices_finish_on_their_own():
    made = response(n=2, stop="x")
    first = taken(made, ChoiceStep(0, text="ax"), ChoiceStep(1, text="b"))
    assert not made.is_cut

    rest = taken(made, ChoiceStep(0, text="more"), ChoiceStep(1, text="cx"))

    assert [(d.index, d.text) for d in first + rest] == [(0, "a"), (1, "b"), (1, "c")]
    assert made.is_cut


@pytest.mark.promise("responses.streamer-per-choice")
def test_each_choice_keeps_the_bytes_of_its_own_characters():
    texts = ("a漢字", "éé漢")
    made, seen = response(n=2), ["", ""]
    for data in zip(*(text.encode() for text in texts), strict=True):
        parts = [ChoiceStep(index, data=bytes([byte])) for index, byte in enumerate(data)]
        for delta in taken(made, *parts):
            seen[delta.index] += delta.text

    assert seen == list(texts)


def test_stop_strings_are_looked_for_in_text_alone():
    call = ToolCall(0, "id", "look", '{"END":')
    deltas = said(
        response(stop="END"),
        ChoiceStep(text="the END of it", kind="reasoning"),
        ChoiceStep(kind="tool_call", call=call),
        ChoiceStep(text="text"),
    )

    assert text_of(deltas, "reasoning") == "the END of it"
    assert [delta.call for delta in deltas if delta.call] == [call]
    assert text_of(deltas) == "text"


def test_a_character_that_reasoning_left_unfinished_does_not_reach_the_text():
    half, rest = "é".encode()[:1], "é".encode()[1:]
    deltas = said(response(), ChoiceStep(data=half, kind="reasoning"), ChoiceStep(data=rest))

    assert text_of(deltas, "reasoning") == text_of(deltas) == "\ufffd"


ENDINGS = ["limit", "length", "content_filter", "stopped", "error", "cancelled", "stop string"]
"""Ways to end inside a character; the engine's own `stop` is none of them."""


def cut(made: Response, parts: list[ChoiceStep], ending: str):
    """All deltas of steps of one choice that are cut by that ending after the last part."""
    *first, last = parts
    if ending in ("length", "content_filter"):
        last = replace(last, finish_reason=ending)
    deltas = [delta for part in (*first, last) for delta in taken(made, part)]
    if ending == "stop string":
        deltas += taken(made, ChoiceStep(text="END"))
    reason = ending if ending in ("error", "cancelled") else "stop"
    deltas += [as_delta(piece) for piece in made.end(reason, is_early=ending == "stopped")]
    return deltas


@pytest.mark.promise("responses.cut-character")
@pytest.mark.parametrize("ending", ENDINGS)
@given(
    st.text(alphabet=st.sampled_from("abcé漢👩\u200d "), min_size=1, max_size=12),
    st.lists(st.integers(0, 60), max_size=8),
    st.data(),
)
def test_an_ending_inside_a_character_leaves_whole_characters(ending, text, cuts, data):
    parts = pieces(text, cuts)
    parts = parts[: data.draw(st.integers(1, len(parts)))]
    made = b"".join(part.data for part in parts)
    options = {"limit": {"max_tokens": len(parts)}, "stop string": {"stop": "END"}}

    said = text_of(cut(response(**options.get(ending, {})), parts, ending))

    assert said == made.decode(errors="ignore")


@pytest.mark.promise("responses.cut-character")
@pytest.mark.parametrize("ending", ["limit", "length", "stopped", "error"])
def test_a_cut_character_is_replaced_on_request(ending):
    made = response(cut_character="replace", **({"max_tokens": 2} if ending == "limit" else {}))

    said = cut(made, [ChoiceStep(data=b"a"), ChoiceStep(data="é".encode()[:1])], ending)

    assert text_of(said) == "a\ufffd"


@pytest.mark.promise("responses.cut-character")
@pytest.mark.parametrize("limit", range(1, 12))
@pytest.mark.parametrize("kind", ["bytes", "ids", "halves"])
def test_a_limit_inside_a_character_ends_engines_of_every_kind_with_whole_ones(kind, limit):
    text = "é漢👩"
    if kind == "halves":
        units = text.encode("utf-16-le")
        tokens = [chr(int.from_bytes(units[at : at + 2], "little")) for at in range(0, 8, 2)]
        whole = "".join(tokens[:limit]).encode("utf-16", "surrogatepass")
        engine = Halves(tokens)
        whole_text = whole.decode("utf-16", errors="ignore")
    else:
        engine = Scripted(text, token_bytes=1, uses_ids=kind == "ids")
        whole_text = text.encode()[:limit].decode(errors="ignore")

    answer = engine.complete("x", max_tokens=limit)
    deltas = [delta for delta in engine.generate("x", max_tokens=limit) if delta.text]

    assert answer.text == "".join(delta.text for delta in deltas) == whole_text
    assert answer.usage.completion_tokens == min(limit, 4 if kind == "halves" else 9)


class Halves(Engine):
    """Says text whose characters may be halves of surrogate pairs."""

    name = "halves"

    def __init__(self, texts):
        super().__init__()
        self.texts = texts

    async def steps(self, request):
        for text in self.texts:
            yield Step((ChoiceStep(text=text),))


@pytest.mark.parametrize("way", ["Drop", "", 1])
def test_another_way_with_cut_characters_is_refused(way):
    with pytest.raises(InvalidInput, match='`cut_character` is "drop" or "replace"'):
        response(cut_character=way)


@pytest.mark.promise("responses.delta-fields")
def test_log_probabilities_come_with_their_text():
    entries = [{"token": token} for token in ("a", "E", "N", "b")]
    parts = [ChoiceStep(text=e["token"], logprobs=(e,)) for e in entries]
    deltas = said(response(stop="END", logprobs=True), *parts)

    seen = [(d.text, len(d.logprobs)) for d in deltas if d.logprobs]
    assert seen == [("a", 1), ("ENb", 3)]
    assert deltas[0].delta_logprob_json_strs == ['{"token": "a"}']
    assert deltas[0].delta_text == deltas[0].text


def test_usage_is_the_engines_at_its_end_and_counted_when_it_was_cut():
    told = Usage(5, 99)
    whole = response()
    whole.pieces(Step((ChoiceStep(text="a", finish_reason="stop"),), told))
    cut = response(stop="b")
    cut.pieces(Step((ChoiceStep(text="ab"),), Usage(5)))

    assert whole.usage == told
    assert cut.usage == Usage(5, 1)


@pytest.mark.parametrize("part", [ChoiceStep(3, text="a"), ChoiceStep(token_ids=[1])])
def test_a_step_that_cannot_be_is_the_engines_fault(part):
    with pytest.raises(Internal) as caught:
        response().pieces(Step((part,)))

    assert caught.value.code == "engine.step-invalid"
