"""The `decoder` of a tokenizer.json, followed for every token once instead of for every text.

Most steps look at one token at a time, and some treat the first of a text in their own way: both
are tables. After tokens are joined only leading spaces can still go. What needs to see the tokens
after, or the whole text, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torvyn.text.failures import vocabulary_invalid, vocabulary_unsupported
from torvyn.text.token_bytes import (
    METASPACE,
    VocabularyData,
    byte_fallback,
    byte_level,
    each,
    encode,
)

Tokens = list[str | bytes | None]

_CLEANED: Final = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


class TokenDecoder:
    """Tokens on their way to bytes: `rest` as they are, `first` as they begin a text."""

    def __init__(self, tokens: list[str | None]) -> None:
        self.rest: Tokens = [*tokens]
        self.first: Tokens | None = None
        self.strip = 0
        self.is_joined = False
        self.has_fallback = False

    def apply(self, decoder: dict[str, Any] | None) -> None:
        """Follow one step, or a sequence of them; without any, a space goes between tokens."""
        if decoder is None:
            self._each(str, lambda token: f" {token}")
            return
        kind = decoder.get("type")
        step = _STEPS.get(str(kind))
        if step is None:
            raise vocabulary_unsupported(f"the decoder {kind!r} looks beyond a token")
        if self.is_joined and kind not in ("Sequence", "Strip", "Fuse"):
            raise vocabulary_unsupported(f"{kind} after the tokens are joined")
        step(self, decoder)

    def result(self, special: list[int]) -> VocabularyData:
        return VocabularyData(
            _bytes(self.rest),
            special,
            first=None if self.first is None else _bytes(self.first),
            strip=self.strip,
            replace_each_byte=self.has_fallback,
        )

    def _each(
        self, first: Callable[[str], str | bytes], rest: Callable[[str], str | bytes] | None = None
    ) -> None:
        """Change all tokens; by two functions when the first of a text differs."""
        if rest is not None or self.first is not None:
            self.first = each(self.first or self.rest, first)
        self.rest = each(self.rest, rest or first)

    def sequence(self, decoder: dict[str, Any]) -> None:
        for step in _need(decoder, "decoders", list):
            if not isinstance(step, dict):
                raise vocabulary_invalid("a step of its decoder is no table")
            self.apply(step)

    def byte_level(self, _decoder: dict[str, Any]) -> None:
        self._each(byte_level)
        self.is_joined = True

    def byte_fallback(self, _decoder: dict[str, Any]) -> None:
        self._each(lambda token: byte_fallback(token) or token)
        self.has_fallback = True

    def fuse(self, _decoder: dict[str, Any]) -> None:
        self.is_joined = True

    def replace(self, decoder: dict[str, Any]) -> None:
        pattern = _need(decoder, "pattern", dict).get("String")
        content = _need(decoder, "content", str)
        if not isinstance(pattern, str) or not pattern:
            raise vocabulary_unsupported("Replace by a regular expression")
        self._each(lambda token: token.replace(pattern, content))

    def strip_ends(self, decoder: dict[str, Any]) -> None:
        content = _need(decoder, "content", str)
        start, stop = _need(decoder, "start", int), _need(decoder, "stop", int)
        if not self.is_joined:
            self._each(lambda token: _stripped(token, content, start, stop))
        elif stop or content != " " or not 0 <= start < 1 << 16:
            raise vocabulary_unsupported("Strip of anything but leading spaces of the text")
        else:
            self.strip += start

    def metaspace(self, decoder: dict[str, Any]) -> None:
        mark = str(decoder.get("replacement", METASPACE))
        scheme = decoder.get("prepend_scheme", "always")
        if scheme == "never" or decoder.get("add_prefix_space") is False:
            self._each(lambda token: token.replace(mark, " "))
        else:
            self._each(
                lambda token: token.replace(mark, ""), lambda token: token.replace(mark, " ")
            )

    def word_piece(self, decoder: dict[str, Any]) -> None:
        prefix = str(decoder.get("prefix", "##"))
        clean: Callable[[str], str] = _cleaned if decoder.get("cleanup", True) else str
        self._each(
            clean,
            lambda token: clean(
                token.removeprefix(prefix) if token.startswith(prefix) else f" {token}"
            ),
        )


_STEPS: Final[dict[str, Callable[[TokenDecoder, dict[str, Any]], None]]] = {
    "Sequence": TokenDecoder.sequence,
    "ByteLevel": TokenDecoder.byte_level,
    "ByteFallback": TokenDecoder.byte_fallback,
    "Fuse": TokenDecoder.fuse,
    "Replace": TokenDecoder.replace,
    "Strip": TokenDecoder.strip_ends,
    "Metaspace": TokenDecoder.metaspace,
    "WordPiece": TokenDecoder.word_piece,
}


def _need(decoder: dict[str, Any], key: str, kind: type) -> Any:
    value = decoder.get(key)
    if not isinstance(value, kind):
        raise vocabulary_invalid(f"the decoder {decoder.get('type')} has no good {key!r}")
    return value


def _stripped(token: str, content: str, start: int, stop: int) -> str:
    for _ in range(min(start, len(token))):
        token = token.removeprefix(content)
    for _ in range(min(stop, len(token))):
        token = token.removesuffix(content)
    return token


def _cleaned(token: str) -> str:
    for found, clean in _CLEANED:
        token = token.replace(found, clean)
    return token


def _bytes(tokens: Tokens) -> list[bytes | None]:
    return [encode(token) if isinstance(token, str) else token for token in tokens]
