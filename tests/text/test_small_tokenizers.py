"""Every supported decoder, on small tokenizers that `tokenizers` writes and decodes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from real_tokenizers import library

from torvyn.text import TextStreamer, Vocabulary

PIECES = [
    "▁Hi", "▁", "▁▁", "there", "<0x41>", "<0x20>", "##ing", "##", ".", "n't", "do not", "'s",
    "Ġa", "Ã", "©", "ðŁĺĢ", " x", "é", "ab</w>", "",
]  # fmt: skip
ADDED = [("<s>", True), ("<｜user▁x｜>", True), ("<tool>", False)]

DECODERS: dict[str, Callable[[Any], Any]] = {
    "none": lambda decoders: None,
    "byte-level": lambda decoders: decoders.ByteLevel(),
    "llama": lambda decoders: decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    ),
    "two-spaces": lambda decoders: decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 2, 0)]
    ),
    "strip-each": lambda decoders: decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)]
    ),
    "metaspace": lambda decoders: decoders.Metaspace(),
    "metaspace-first": lambda decoders: decoders.Metaspace(prepend_scheme="first"),
    "metaspace-never": lambda decoders: decoders.Metaspace(prepend_scheme="never"),
    "word-piece": lambda decoders: decoders.WordPiece(),
    "word-piece-raw": lambda decoders: decoders.WordPiece(prefix="##", cleanup=False),
}


@pytest.mark.parametrize("skip_special", [True, False])
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_is_followed_as_the_library_does(
    name: str, skip_special: bool, tmp_path: Path
) -> None:
    reference = made(name)
    reference.save(str(tmp_path / "tokenizer.json"))
    streamer = TextStreamer(Vocabulary.load(tmp_path), skip_special=skip_special)
    choose = random.Random(name)

    for _ in range(300):
        ids = choose.choices(range(len(PIECES) + len(ADDED)), k=choose.randrange(12))
        whole = reference.decode(ids, skip_special_tokens=skip_special)
        assert "".join([streamer.put(id) for id in ids]) + streamer.finish() == whole
        assert streamer.put(ids) + streamer.finish() == whole


def made(name: str) -> Any:
    tokenizers = library("tokenizers")
    vocabulary = {piece: id for id, piece in enumerate(PIECES)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="there"))
    for content, special in ADDED:
        tokenizer.add_tokens([tokenizers.AddedToken(content, special=special)])
        if special:
            tokenizer.add_special_tokens([content])
    decoder = DECODERS[name](tokenizers.decoders)
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer
