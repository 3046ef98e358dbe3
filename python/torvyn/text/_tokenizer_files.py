"""Tokenizers in other files: SentencePiece `.model`, GGUF, `.tiktoken` and Mistral's `tekken.json`.

Native code parses the first two. The last two rank byte strings.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from torvyn._native import FileParser, NativeError
from torvyn.errors import TextError
from torvyn.text._errors import vocabulary_invalid, vocabulary_too_large, vocabulary_unsupported
from torvyn.text._token_bytes import (
    MAX_TOKENS,
    METASPACE,
    FirstTokenScope,
    VocabularyData,
    byte_fallback,
    byte_level,
    encode,
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


_TEKKEN_NAMES: Final = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
    "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)  # fmt: skip
"""The special tokens, by id, of files that do not name them."""
_LAST_VERSION_WITHOUT_NAMES: Final = 7
"""The ids of a later file without names have other meanings."""


def parse_tiktoken(data: bytes, special: Mapping[str, int]) -> VocabularyData:
    """Each line is a base64 token and its rank. The file does not contain the special tokens."""
    ranks = dict(_lines(data))
    special_tokens = {id: name.encode() for name, id in special.items()}
    return VocabularyData(_table(ranks | special_tokens), sorted(special_tokens))


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.splitlines(), 1):
        token, _, rank = line.partition(b" ")
        if line and not (rank.isdigit() and len(rank) < 10):
            raise vocabulary_invalid(f"line {number} is not a token and its rank")
        if line:
            yield int(rank), _from_base64(token, f"line {number}")


def is_tekken(data: dict[str, Any]) -> bool:
    return isinstance(data.get("vocab"), list) and isinstance(data.get("config"), dict)


def parse_tekken(data: dict[str, Any]) -> VocabularyData:
    """The special tokens come first, then as many of the vocabulary as the config says."""
    config, vocab = data["config"], data["vocab"]
    specials, size = config.get("default_num_special_tokens"), config.get("default_vocab_size")
    if not (_is_count(specials) and _is_count(size) and 0 < specials <= size):
        raise vocabulary_invalid("its config does not give the number of tokens")
    tokens = {id: encode(name) for id, name in _tekken_specials(data, specials)}
    for entry in vocab[: size - specials]:
        rank = _number(entry, "rank", size - specials)
        tokens[specials + rank] = _from_base64(
            str(entry.get("token_bytes")).encode(), f"rank {rank}"
        )
    return VocabularyData(_table(tokens), [*range(specials)])


def _tekken_specials(data: dict[str, Any], count: int) -> Iterator[tuple[int, str]]:
    """`(id, name)` in any order; the last one per id wins. Unnamed tokens get a name."""
    yield from ((id, f"<SPECIAL_{id}>") for id in range(count))
    entries = data.get("special_tokens")
    if entries is None:
        if _version(data["config"].get("version")) <= _LAST_VERSION_WITHOUT_NAMES:
            yield from enumerate(_TEKKEN_NAMES[:count])
        return
    if not isinstance(entries, list):
        raise vocabulary_invalid("its `special_tokens` is not a list")
    for entry in entries:
        rank = _number(entry, "rank", count)
        if not isinstance(name := entry.get("token_str"), str):
            raise vocabulary_invalid(f"the special token {rank} has no name")
        yield rank, name


def _version(text: object) -> int:
    """`v3` is 3; a file without a version is as old as v3."""
    digits = str(text)[1:] if isinstance(text, str) else ""
    return int(digits) if digits.isdecimal() and len(digits) < 4 else 3


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_TOKENS


def _number(entry: object, key: str, limit: int) -> int:
    value = entry.get(key) if isinstance(entry, dict) else None
    if type(value) is not int or not 0 <= value < limit:
        raise vocabulary_invalid(f"{entry!r:.80} has no {key} below {limit}")
    return value


def _from_base64(text: bytes, place: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise vocabulary_invalid(f"the token of {place} is not base64") from None


def _table(tokens: dict[int, bytes]) -> list[bytes | None]:
    last = max(tokens, default=-1)
    if last < 0 or min(tokens) < 0:
        raise vocabulary_invalid("it has no tokens, or negative ids")
    if last >= MAX_TOKENS:
        raise vocabulary_invalid(f"the id {last} is not below {MAX_TOKENS}")
    return [tokens.get(id) for id in range(last + 1)]
