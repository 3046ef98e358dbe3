"""How tokenizers spell bytes in the text of a token, and the record that all readers of files make.

Knows nothing of files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from torvyn.text.failures import vocabulary_invalid, vocabulary_too_large

METASPACE: Final = "\u2581"
MAX_TOKENS: Final = 1 << 22
"""Ids beyond are refused: a file could otherwise ask for any amount of memory."""

Until = Literal["token", "taken", "text"]


@dataclass(slots=True)
class VocabularyData:
    """The arguments of a `Vocabulary`, as a reader of a file found them."""

    tokens: list[bytes | None]
    special: list[int] = field(default_factory=list)
    first: list[bytes | None] | None = None
    first_until: Until = "token"
    strip: int = 0
    replace_each_byte: bool = False
    special_separates: bool = False


def _byte_alphabet() -> dict[int, str]:
    """Byte-level BPE writes a printable byte as itself and every other as a letter from U+0100."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(kept)]
    letters = {letter: byte for byte, letter in zip(kept, kept, strict=True)}
    letters |= {0x100 + number: byte for number, byte in enumerate(others)}
    return {letter: chr(byte) for letter, byte in letters.items()}


_ALPHABET: Final = _byte_alphabet()
_ENCODED: Final = re.compile("[" + re.escape("".join(map(chr, _ALPHABET))) + "]*")
_FALLBACK: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_level(token: str) -> bytes:
    """A token of byte-level BPE; one with a letter outside the alphabet is text as it stands."""
    if _ENCODED.fullmatch(token):
        return token.translate(_ALPHABET).encode("latin-1")
    return encode(token)


def byte_fallback(token: str) -> bytes | None:
    """The byte of `<0xNN>`; None for any other token."""
    found = _FALLBACK.fullmatch(token)
    return bytes.fromhex(found[1]) if found else None


def encode(token: str) -> bytes:
    try:
        return token.encode()
    except UnicodeEncodeError:
        raise vocabulary_invalid(f"the token {token!r} is no text") from None


def tokens_by_id(pairs: Iterable[tuple[int, str]]) -> list[str | None]:
    """Tokens by id, with None for ids between; the later of two with one id stays."""
    known = dict(pairs)
    if not known:
        raise vocabulary_invalid("it has no tokens")
    last = max(known)
    if min(known) < 0:
        raise vocabulary_invalid(f"the id {min(known)} is below zero")
    if last >= MAX_TOKENS:
        raise vocabulary_too_large(f"the id {last} is not below {MAX_TOKENS}")
    return [known.get(id) for id in range(last + 1)]


def each(
    tokens: Iterable[str | bytes | None], change: Callable[[str], str | bytes]
) -> list[str | bytes | None]:
    """What `change` makes of every token that is still text."""
    return [change(token) if isinstance(token, str) else token for token in tokens]
