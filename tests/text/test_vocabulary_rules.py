"""The decoding rules of tokenizer files: decoders, leading spaces, bytes, types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tokenizer_files as made

from torvyn.text import TextStreamer, Vocabulary

STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
SPACES = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
LLAMA = {
    "type": "Sequence",
    "decoders": [SPACES, {"type": "ByteFallback"}, {"type": "Fuse"}, STRIP],
}
PIECES = ["▁Hi", "▁", "there", "<0xE3>", "<0x81>", "<0x82>", "##ing", "."]


def text(vocabulary: Vocabulary, *ids: int, **options: Any) -> str:
    one_by_one = TextStreamer(vocabulary, **options)
    at_once = TextStreamer(vocabulary, **options)
    out = "".join(one_by_one.put(id) for id in ids) + one_by_one.finish()
    assert at_once.put([*ids]) + at_once.finish() == out
    return out


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokenizer.json"


def of(path: Path, decoder: Any, tokens: list[str] = PIECES) -> Vocabulary:
    return Vocabulary.load(made.tokenizer_json(path, tokens, decoder, [("<s>", True)]))


def test_byte_level_tokens_are_bytes(file: Path) -> None:
    vocabulary = of(file, {"type": "ByteLevel"}, ["ĠHi", "ðŁĺ", "Ģ", "<｜x▁y｜>"])

    assert text(vocabulary, 0, 1, 2) == " Hi😀"
    assert text(vocabulary, 3, 4) == "<｜x▁y｜>"


def test_byte_fallback_and_a_leading_space(file: Path) -> None:
    vocabulary = of(file, LLAMA)

    assert text(vocabulary, 0, 0, 3, 4, 5) == "Hi Hiあ"
    assert text(vocabulary, 8, 1, 1, 2) == " there"
    assert text(vocabulary, 3, 4, 2) == "\ufffd\ufffdthere"
    assert text(vocabulary, 8, 0, skip_special=False) == "<s> Hi"


def test_a_text_that_continues_keeps_its_leading_space(file: Path) -> None:
    assert text(of(file, LLAMA), 0, continues=True) == " Hi"


def test_metaspace_drops_the_marks_of_the_first_token(file: Path) -> None:
    first = of(file, {"type": "Metaspace", "prepend_scheme": "first"})
    never = of(file, {"type": "Metaspace", "prepend_scheme": "never"})

    assert text(first, 1, 0) == " Hi"
    assert text(first, 0, 0) == "Hi Hi"
    assert text(never, 0) == " Hi"


def test_word_piece_joins_its_continuations(file: Path) -> None:
    vocabulary = of(file, {"type": "WordPiece", "prefix": "##", "cleanup": True})

    assert text(vocabulary, 2, 6, 2, 7) == "thereing there."


def test_without_a_decoder_a_space_goes_between_tokens(file: Path) -> None:
    assert text(of(file, None), 2, 2) == "there there"


@pytest.mark.parametrize(("extra", "expected"), [(False, " Hi"), (True, "Hi")])
def test_sentencepiece_consumes_one_space_or_all(
    tmp_path: Path, extra: bool, expected: str
) -> None:
    pieces = [("<unk>", 2), ("<s>", 3), ("▁", 1), ("▁Hi", 1), ("<0xE3>", 6), ("<0x81>", 6)]
    vocabulary = Vocabulary.load(made.sentencepiece(tmp_path / "m.model", pieces, extra=extra))

    assert text(vocabulary, 1, 2, 3) == expected
    assert text(vocabulary, 0, 3) == " \u2047  Hi"
    assert text(vocabulary, 4, 1, 5) == "\ufffd\ufffd"


def test_sentencepiece_without_a_dummy_prefix_keeps_the_space(tmp_path: Path) -> None:
    file = made.sentencepiece(tmp_path / "m.model", [("▁Hi", 1)], dummy=False)

    assert text(Vocabulary.load(file), 0) == " Hi"


def test_gguf_speaks_of_two_kinds_of_tokenizers(tmp_path: Path) -> None:
    tokens = [("<s>", 3), ("ĠHi", 1), ("▁Hi", 1), ("<0x41>", 6), ("▁<raw>", 4), ("<gone>", 5)]
    llama = Vocabulary.load(made.gguf(tmp_path / "llama.gguf", "llama", tokens))
    plain = Vocabulary.load(made.gguf(tmp_path / "plain.gguf", "llama", tokens, prefix=False))
    byte_level = Vocabulary.load(made.gguf(tmp_path / "bpe.gguf", "gpt2", tokens))

    assert text(llama, 0, 2, 2, 3, 4, 5) == "Hi HiA <raw>"
    assert text(plain, 2) == " Hi"
    assert text(byte_level, 0, 1, 4) == " Hi▁<raw>"


def test_tekken_and_tiktoken_are_ranks_of_bytes(tmp_path: Path) -> None:
    tekken = Vocabulary.load(made.tekken(tmp_path / "tekken.json", [b"a", b"\xf0"], specials=3))
    ranks = made.tiktoken(tmp_path / "x.tiktoken", [b"a", b"b"])
    tiktoken = Vocabulary.load(ranks, special_tokens={"<end>": 5})

    assert (len(tekken), tekken[3], tekken.is_special(2)) == (5, b"a", True)
    assert (len(tiktoken), tiktoken[5], tiktoken[3]) == (6, b"<end>", None)


def test_a_folder_is_searched(tmp_path: Path) -> None:
    made.tokenizer_json(tmp_path / "tokenizer.json", ["a"], None)

    assert repr(Vocabulary.load(tmp_path)) == "<Vocabulary of 1 ids>"
