"""Tokenizers written as ranks of byte strings: `.tiktoken` files and Mistral's `tekken.json`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from torvyn.text.complaints import vocabulary_invalid
from torvyn.text.spelling import MAX_TOKENS, Spelled


def spell_tiktoken(data: bytes, special: Mapping[str, int]) -> Spelled:
    """Lines of a token in base64 and its rank. The file does not hold the special tokens."""
    ranks = dict(_lines(data))
    signs = {id: name.encode() for name, id in special.items()}
    return Spelled(_table(ranks | signs), sorted(signs))


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.splitlines(), 1):
        token, _, rank = line.partition(b" ")
        if line and not (rank.isdigit() and len(rank) < 10):
            raise vocabulary_invalid(f"line {number} is no token with its rank")
        if line:
            yield int(rank), _from_base64(token, f"line {number}")


def is_tekken(data: dict[str, Any]) -> bool:
    return isinstance(data.get("vocab"), list) and isinstance(data.get("config"), dict)


def spell_tekken(data: dict[str, Any]) -> Spelled:
    """The special tokens come first; after them, as many of the vocabulary as the config says."""
    config, vocab = data["config"], data["vocab"]
    specials, size = config.get("default_num_special_tokens"), config.get("default_vocab_size")
    if not (_is_count(specials) and _is_count(size) and 0 < specials <= size):
        raise vocabulary_invalid("its config does not say how many tokens there are")
    tokens = {id: f"<SPECIAL_{id}>".encode() for id in range(specials)}
    for entry in data.get("special_tokens") or []:
        tokens[_number(entry, "rank", specials)] = str(entry.get("token_str")).encode()
    for entry in vocab[: size - specials]:
        rank = _number(entry, "rank", size - specials)
        tokens[specials + rank] = _from_base64(
            str(entry.get("token_bytes")).encode(), f"rank {rank}"
        )
    return Spelled(_table(tokens), [*range(specials)])


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
        raise vocabulary_invalid("it has no tokens, or ids below zero")
    if last >= MAX_TOKENS:
        raise vocabulary_invalid(f"the id {last} is not below {MAX_TOKENS}")
    return [tokens.get(id) for id in range(last + 1)]
