"""`TextStreamer` on small vocabularies: the law, the policies, the inputs."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn.errors import TextError
from torvyn.text import TextStreamer, Vocabulary

BYTES = [bytes([byte]) for byte in range(256)]
WORDS = [b"Hello", b" world", "é".encode(), b"\xf0\x9f", b"\x91\xa9", "\u200d".encode(), b""]
SPECIAL = len(BYTES) + len(WORDS)
VOCABULARY = Vocabulary([*BYTES, *WORDS, b"<end>", None, b"last"], special=[SPECIAL])
MISSING, LAST = SPECIAL + 1, SPECIAL + 2
EMOJI_HALVES = [259, 260]

ids = st.lists(st.integers(0, SPECIAL - 1), max_size=30)


def run(streamer: TextStreamer, *pieces: Any) -> list[str]:
    return [*(streamer.put(piece) for piece in pieces), streamer.finish()]


@pytest.mark.promise("responses.partial-characters")
@given(ids, st.data(), st.booleans())
def test_every_split_joins_to_the_text_of_all(all: list[int], data: Any, graphemes: bool) -> None:
    whole = b"".join(VOCABULARY[id] or b"" for id in all).decode(errors="replace")
    streamer = TextStreamer(VOCABULARY, graphemes=graphemes)
    places = sorted(data.draw(st.lists(st.integers(0, len(all)), max_size=6)))
    pieces = [all[a:b] for a, b in zip([0, *places], [*places, len(all)], strict=True)]

    assert "".join(run(streamer, *pieces)) == whole
    assert "".join(run(streamer, *all)) == whole


@pytest.mark.promise("responses.partial-characters")
def test_a_character_leaves_with_the_token_that_completes_it() -> None:
    streamer = TextStreamer(VOCABULARY)

    assert run(streamer, 256, *EMOJI_HALVES, 257) == ["Hello", "", "👩", " world", ""]


@pytest.mark.parametrize(
    "tokens",
    [
        [256, 257],
        (256, 257),
        array.array("I", [256, 257]),
        array.array("q", [256, 257]),
        array.array("H", [256, 257]),
        iter([256, 257]),
        b"Hello world",
        bytearray(b"Hello world"),
        memoryview(b"Hello world"),
    ],
    ids=lambda tokens: type(tokens).__name__,
)
def test_ids_and_bytes_come_in_many_forms(tokens: Any) -> None:
    assert TextStreamer(VOCABULARY).put(tokens) == "Hello world"


@pytest.mark.parametrize(
    "tokens",
    [
        2**63,
        [256, 2**63, 257],
        (256, 10**30, 257),
        iter([256, -(2**64), 257]),
        array.array("Q", [256, 2**63, 2**64 - 1, 257]),
    ],
    ids=["id", "list", "tuple", "iterator", "array"],
)
def test_ids_of_more_than_64_bits_are_unknown_like_any_other(tokens: Any) -> None:
    text = TextStreamer(VOCABULARY, unknown="skip").put(tokens)

    assert text == ("" if tokens == 2**63 else "Hello world")


def test_the_error_names_the_id_that_was_given() -> None:
    streamer = TextStreamer(VOCABULARY)

    for tokens in ([256, 2**70], array.array("Q", [256, 2**64 - 5])):
        wide = tokens[1]
        with pytest.raises(TextError, match=f"token id {wide} is not in the vocabulary"):
            streamer.put(tokens)
    with pytest.raises(TextError, match=f"token id {2**63 - 1} is not in the vocabulary"):
        streamer.put([256, 2**63 - 1])
    assert streamer.put([256]) == "Hello"


@pytest.mark.parametrize("wrong", ["text", 1.5, [1.5], ["a"], None, object()])
def test_what_is_no_token_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"float|text|str|NoneType|object"):
        TextStreamer(VOCABULARY).put(wrong)


def test_special_tokens_are_skipped_or_shown() -> None:
    assert run(TextStreamer(VOCABULARY), [256, SPECIAL]) == ["Hello", ""]
    assert run(TextStreamer(VOCABULARY, skip_special=False), SPECIAL) == ["<end>", ""]


WIDE = [2**63 - 1, 2**63, 2**64, 10**30, -(2**63), -(2**63) - 1]


@pytest.mark.promise("responses.bad-ids")
@pytest.mark.parametrize("id", [-1, MISSING, LAST + 1, 2**62, *WIDE])
def test_an_unknown_id_is_an_error_skipped_or_replaced(id: int) -> None:
    with pytest.raises(TextError, match=f"token id {id} is not in the vocabulary of 266 ids"):
        TextStreamer(VOCABULARY).put(id)
    assert TextStreamer(VOCABULARY, unknown="skip").put([256, id]) == "Hello"
    assert TextStreamer(VOCABULARY, unknown="replace").put([256, id]) == "Hello\ufffd"


@pytest.mark.parametrize(("tail", "text"), [("replace", "\ufffd"), ("drop", "")])
def test_an_unfinished_tail_is_replaced_or_dropped(tail: Any, text: str) -> None:
    assert run(TextStreamer(VOCABULARY, tail=tail), EMOJI_HALVES[0]) == ["", text]


def test_an_unfinished_tail_can_be_an_error() -> None:
    streamer = TextStreamer(VOCABULARY, tail="error")
    streamer.put(EMOJI_HALVES[0])
    with pytest.raises(TextError, match="incomplete character: the bytes f0 9f"):
        streamer.finish()
    assert run(streamer, EMOJI_HALVES[1]) == ["👩", ""]


@pytest.mark.promise("responses.bad-ids")
@pytest.mark.parametrize(("bad", "text"), [("replace", "a\ufffdb"), ("drop", "ab")])
def test_bad_bytes_are_replaced_or_dropped(bad: Any, text: str) -> None:
    assert run(TextStreamer(bad_bytes=bad), b"a\xffb") == [text, ""]


def test_a_call_that_fails_changes_nothing() -> None:
    streamer = TextStreamer(VOCABULARY, bad_bytes="error")
    streamer.put(EMOJI_HALVES[0])
    for wrong in ([EMOJI_HALVES[1], 256, 0xFF], [0x91, MISSING], b"a"):
        with pytest.raises(TextError):
            streamer.put(wrong)
        assert streamer.held_bytes == 2
    assert run(streamer, EMOJI_HALVES[1]) == ["👩", ""]


def test_ids_need_a_vocabulary() -> None:
    with pytest.raises(TextError, match="has no vocabulary"):
        TextStreamer().put(5)


def test_whole_graphemes_are_held_until_the_next_begins() -> None:
    streamer = TextStreamer(VOCABULARY, graphemes=True)
    woman, joiner = EMOJI_HALVES, 261

    assert run(streamer, woman, joiner, woman, 256) == ["", "", "", "👩\u200d👩Hell", "o"]


def test_an_endless_grapheme_is_held_to_a_bound() -> None:
    streamer = TextStreamer(graphemes=True)
    buffered, text = 0, ""
    for _ in range(5_000):
        text += streamer.put("\u0301".encode())
        buffered = max(buffered, streamer.held_bytes)
    assert buffered <= 128
    assert text + streamer.finish() == "\u0301" * 5_000


def test_clear_and_finish_begin_anew() -> None:
    streamer = TextStreamer(VOCABULARY, graphemes=True)
    streamer.put([256, EMOJI_HALVES[0]])
    assert streamer.held_bytes == len("o") + 2
    streamer.clear()
    assert streamer.held_bytes == 0
    assert run(streamer, 256) == ["Hell", "o"]


@pytest.mark.parametrize("option", ["tail", "bad_bytes", "unknown"])
def test_a_policy_that_does_not_exist_is_refused(option: str) -> None:
    policy: dict[str, Any] = {option: "loud"}
    with pytest.raises(ValueError, match=f'{option} is .*, not "loud"'):
        TextStreamer(VOCABULARY, **policy)


def test_many_streamers_share_a_vocabulary() -> None:
    def pieces(order: Sequence[int]) -> str:
        return "".join(run(TextStreamer(VOCABULARY), *order))

    assert [pieces(EMOJI_HALVES), pieces([256])] == ["👩", "Hello"]
    assert len(VOCABULARY) == LAST + 1
    assert VOCABULARY[MISSING] is None
    with pytest.raises(IndexError):
        VOCABULARY[LAST + 1]
