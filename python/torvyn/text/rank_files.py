"""Tokenizers written as ranks of byte strings: `.tiktoken` files and Mistral's `tekken.json`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

from torvyn.text.failures import vocabulary_invalid
from torvyn.text.token_bytes import MAX_TOKENS, VocabularyData, encode

_TEKKEN_NAMES: Final = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
    "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)  # fmt: skip
"""The special tokens of files that do not name theirs, by their id."""
_LAST_UNNAMED: Final = 7
"""The last version of such files. A later one without names is broken, and its ids mean others."""


def parse_tiktoken(data: bytes, special: Mapping[str, int]) -> VocabularyData:
    """Lines of a token in base64 and its rank. The file does not hold the special tokens."""
    ranks = dict(_lines(data))
    signs = {id: name.encode() for name, id in special.items()}
    return VocabularyData(_table(ranks | signs), sorted(signs))


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.splitlines(), 1):
        token, _, rank = line.partition(b" ")
        if line and not (rank.isdigit() and len(rank) < 10):
            raise vocabulary_invalid(f"line {number} is no token with its rank")
        if line:
            yield int(rank), _from_base64(token, f"line {number}")


def is_tekken(data: dict[str, Any]) -> bool:
    return isinstance(data.get("vocab"), list) and isinstance(data.get("config"), dict)


def parse_tekken(data: dict[str, Any]) -> VocabularyData:
    """The special tokens come first; after them, as many of the vocabulary as the config says."""
    config, vocab = data["config"], data["vocab"]
    specials, size = config.get("default_num_special_tokens"), config.get("default_vocab_size")
    if not (_is_count(specials) and _is_count(size) and 0 < specials <= size):
        raise vocabulary_invalid("its config does not say how many tokens there are")
    tokens = {id: encode(name) for id, name in _tekken_specials(data, specials)}
    for entry in vocab[: size - specials]:
        rank = _number(entry, "rank", size - specials)
        tokens[specials + rank] = _from_base64(
            str(entry.get("token_bytes")).encode(), f"rank {rank}"
        )
    return VocabularyData(_table(tokens), [*range(specials)])


def _tekken_specials(data: dict[str, Any], count: int) -> Iterator[tuple[int, str]]:
    """`(id, name)`, in any order and the last one for an id holds; those without a name get one."""
    yield from ((id, f"<SPECIAL_{id}>") for id in range(count))
    entries = data.get("special_tokens")
    if entries is None:
        if _version(data["config"].get("version")) <= _LAST_UNNAMED:
            yield from enumerate(_TEKKEN_NAMES[:count])
        return
    if not isinstance(entries, list):
        raise vocabulary_invalid("its `special_tokens` are no list")
    for entry in entries:
        rank = _number(entry, "rank", count)
        if not isinstance(name := entry.get("token_str"), str):
            raise vocabulary_invalid(f"the special token {rank} has no name")
        yield rank, name


def _version(text: object) -> int:
    """Of a file: `v3` is 3, and so is none, which is as old."""
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
        raise vocabulary_invalid("it has no tokens, or ids below zero")
    if last >= MAX_TOKENS:
        raise vocabulary_invalid(f"the id {last} is not below {MAX_TOKENS}")
    return [tokens.get(id) for id in range(last + 1)]
