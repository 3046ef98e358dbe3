"""How tokenizers write bytes in a token's text, and the record that all file readers return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from torvyn.text._errors import vocabulary_invalid, vocabulary_too_large

METASPACE: Final = "\u2581"
MAX_TOKENS: Final = 1 << 22
"""Higher ids are errors: otherwise a file could request any amount of memory."""

FirstTokenScope = Literal["token", "taken", "text"]


@dataclass(slots=True)
class VocabularyData:
    """The content of a tokenizer file, as arguments of `Vocabulary`."""

    tokens: list[bytes | None]
    special: list[int] = field(default_factory=list)
    first: list[bytes | None] | None = None
    first_until: FirstTokenScope = "token"
    strip: int = 0
    replace_each_byte: bool = False
    special_separates: bool = False


def _byte_alphabet() -> dict[int, str]:
    """Byte-level BPE writes a printable byte as itself and any other as a letter from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    letters = {letter: byte for byte, letter in zip(printable, printable, strict=True)}
    letters |= {0x100 + number: byte for number, byte in enumerate(others)}
    return {letter: chr(byte) for letter, byte in letters.items()}


_ALPHABET: Final = _byte_alphabet()
_ENCODED: Final = re.compile("[" + re.escape("".join(map(chr, _ALPHABET))) + "]*")
_FALLBACK: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_level(token: str) -> bytes:
    """Decodes a byte-level BPE token; one with letters outside the alphabet is plain text."""
    if _ENCODED.fullmatch(token):
        return token.translate(_ALPHABET).encode("latin-1")
    return encode(token)


def byte_fallback(token: str) -> bytes | None:
    """The byte of `<0xNN>`; None for any other token."""
    match = _FALLBACK.fullmatch(token)
    return bytes.fromhex(match[1]) if match else None


def encode(token: str) -> bytes:
    try:
        return token.encode()
    except UnicodeEncodeError:
        raise vocabulary_invalid(f"the token {token!r} is not valid text") from None


def tokens_by_id(pairs: Iterable[tuple[int, str]]) -> list[str | None]:
    """Tokens by id, with None for missing ids; the last token of an id wins."""
    known = dict(pairs)
    if not known:
        raise vocabulary_invalid("it has no tokens")
    last = max(known)
    if min(known) < 0:
        raise vocabulary_invalid(f"the id {min(known)} is negative")
    if last >= MAX_TOKENS:
        raise vocabulary_too_large(f"the id {last} is not below {MAX_TOKENS}")
    return [known.get(id) for id in range(last + 1)]


def map_text(
    tokens: Iterable[str | bytes | None], change: Callable[[str], str | bytes]
) -> list[str | bytes | None]:
    """Applies `change` to every token that is still text."""
    return [change(token) if isinstance(token, str) else token for token in tokens]
