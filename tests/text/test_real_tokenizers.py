"""The law of streaming on real tokenizers: the pieces joined are the library's decode of all ids.

The library's `decode` itself is the reference, bad bytes included, with nothing cleaned up: that
some frameworks tidy spaces afterwards is no part of a tokenizer. One library is not followed to the
letter: see `test_a_broken_run_keeps_its_whole_characters`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import pytest
from real_tokenizers import REAL, Real, fetched
from samples import TEXTS, cuts
from scale import sample

from torvyn.text import TextStreamer


@pytest.fixture(scope="module", params=REAL)
def real(request: pytest.FixtureRequest) -> Real:
    return REAL[request.param]()


def streamed(real: Real, pieces: Sequence[Sequence[int]]) -> str:
    streamer = TextStreamer(real.vocabulary, skip_special=not real.shows_special)
    out = ""
    for piece in pieces:
        out += streamer.put(piece[0] if len(piece) == 1 else list(piece))
        assert streamer.held_bytes <= 3
    return out + streamer.finish()


@pytest.mark.promise("responses.partial-characters")
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_split_joins_to_what_the_library_decodes(real: Real, text: str) -> None:
    ids = real.encode(text)
    whole = real.decode(ids)

    assert len(ids) > 5
    pieces = [*cuts(ids, seed=len(ids))][:: sample(4, full=1)]
    assert {streamed(real, each) for each in pieces} == {whole}


def test_random_unicode_is_decoded_as_the_library_does(real: Real) -> None:
    choose = random.Random(1)
    for _ in range(30):
        text = "".join(chr(choose.choice((choose.randrange(0xD7FF), 0x1F400))) for _ in range(30))
        ids = real.encode(text)
        assert streamed(real, [[id] for id in ids]) == real.decode(ids)


def test_random_ids_are_decoded_as_the_library_does(real: Real) -> None:
    choose = random.Random(2)
    known = [id for id in range(len(real.vocabulary)) if real.vocabulary[id] is not None]
    for _ in range(100):
        ids = choose.choices(known, k=choose.randrange(1, 30))
        assert streamed(real, [[id] for id in ids]) == real.decode(ids)


def test_random_bytes_are_decoded_as_the_library_does(real: Real) -> None:
    choose = random.Random(3)
    spelled = {id: real.vocabulary[id] or b"" for id in range(len(real.vocabulary))}
    single = [id for id, token in spelled.items() if len(token) == 1 and token != b" "]
    for _ in range(100):
        ids = choose.choices(single, k=choose.randrange(1, 30))
        each = b"".join(spelled[id] for id in ids).decode(errors="surrogateescape")
        expected = re.sub("[\ud800-\udfff]", "\ufffd", each)
        assert streamed(real, [[id] for id in ids]) == (
            expected if real.hides_broken_runs else real.decode(ids)
        )


def test_a_broken_run_keeps_its_whole_characters() -> None:
    """`tokenizers` replaces a whole run of byte tokens if any byte is invalid, which is only known
    when the run has ended. SentencePiece keeps the complete characters, and so do we."""
    real = fetched("llama2")
    bytes_of = {real.vocabulary[id]: id for id in range(3, 259)}
    ids = [bytes_of[bytes([byte])] for byte in "é".encode() + b"\xff"]

    assert real.decode(ids) == "\ufffd" * 3
    assert streamed(real, [[id] for id in ids]) == "é\ufffd"
