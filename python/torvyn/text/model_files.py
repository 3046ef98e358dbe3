"""Reads the tokenizers in SentencePiece `.model` and GGUF files. Native code parses the files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from torvyn._native import FileParser, NativeError
from torvyn.errors import TextError
from torvyn.text.failures import (
    vocabulary_invalid,
    vocabulary_too_large,
    vocabulary_unsupported,
)
from torvyn.text.token_bytes import (
    METASPACE,
    FirstTokenScope,
    VocabularyData,
    byte_fallback,
    byte_level,
)

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_SPACE: Final = METASPACE.encode()


def parse_sentencepiece(data: bytes) -> VocabularyData:
    """Decodes like `SentencePieceProcessor.decode`, piece by piece."""
    try:
        pieces, unknown, dummy, extra, is_suffix, denormalizes = FileParser.sentencepiece(data)
    except NativeError as error:
        raise _vocabulary_error(error) from None
    if is_suffix or denormalizes:
        rule = "treat_whitespace_as_suffix" if is_suffix else "denormalizer"
        raise vocabulary_unsupported(f"the model has a {rule}")
    tokens: list[bytes | None] = []
    for piece, kind in pieces:
        tokens.append(unknown if kind == UNKNOWN else _piece(piece, kind))
    special = [id for id, (_, kind) in enumerate(pieces) if kind == CONTROL]
    until: FirstTokenScope = "text" if extra else "taken"
    first = _without_space([piece for piece, _ in pieces], tokens) if dummy or extra else None
    return VocabularyData(
        tokens, special, first, until, replace_each_byte=True, special_separates=True
    )


def parse_gguf(path: Path) -> VocabularyData:
    """Decodes like llama.cpp's detokenizer, token by token."""
    try:
        model, tokens, kinds, prefix = FileParser.gguf(path)
    except NativeError as error:
        raise _vocabulary_error(error) from None
    kinds = kinds or [NORMAL] * len(tokens)
    if len(kinds) != len(tokens):
        raise vocabulary_invalid(f"it has {len(tokens)} tokens, but {len(kinds)} token types")
    hidden = (UNKNOWN, CONTROL, UNUSED)
    special = [id for id, kind in enumerate(kinds) if kind in hidden]
    typed = [*zip(tokens, kinds, strict=True)]
    if model == "gpt2":
        return VocabularyData([_byte_level(*pair) for pair in typed], special)
    if model == "llama":
        pieces: list[bytes | None] = [_piece(*pair) for pair in typed]
        first = None if prefix is False else _without_space(tokens, pieces)
        return VocabularyData(pieces, special, first, "taken", replace_each_byte=True)
    raise vocabulary_unsupported(f"the GGUF file has a tokenizer of type {model!r}")


def _piece(piece: bytes, kind: int) -> bytes:
    byte = byte_fallback(piece.decode("latin-1")) if kind == BYTE else None
    if kind == BYTE and byte is None:
        raise vocabulary_invalid(f"{piece!r:.40} has the type byte, but is not a byte")
    return piece.replace(_SPACE, b" ") if byte is None else byte


def _without_space(pieces: list[bytes], tokens: list[bytes | None]) -> list[bytes | None]:
    """The tokens at the start of a text, where the space before the first word is removed."""
    return [
        token[1:] if token and piece.startswith(_SPACE) else token
        for piece, token in zip(pieces, tokens, strict=True)
    ]


def _byte_level(token: bytes, kind: int) -> bytes:
    if kind not in (NORMAL, BYTE):
        return token
    try:
        return byte_level(token.decode())
    except UnicodeDecodeError:
        return token


def _vocabulary_error(error: NativeError) -> TextError:
    kind, reason = error.args
    kinds = {"too-large": vocabulary_too_large, "unsupported": vocabulary_unsupported}
    return kinds.get(kind, vocabulary_invalid)(reason)
