"""Hugging Face's `tokenizer.json`, and its `decoder`, which is applied once per token.

Most steps of a decoder change one token at a time; some treat the first token of a text
differently. Both fit in tables. After the tokens are joined, only leading spaces can be removed.
Decoders that need later tokens or the whole text are not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from torvyn.text._errors import vocabulary_invalid, vocabulary_unsupported
from torvyn.text._token_bytes import (
    METASPACE,
    VocabularyData,
    byte_fallback,
    byte_level,
    encode,
    map_text,
    tokens_by_id,
)

Tokens = list[str | bytes | None]

_CLEANUPS: Final = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


class TokenDecoder:
    """Decodes tokens step by step: `first` at the start of a text, `rest` everywhere else."""

    def __init__(self, tokens: list[str | None]) -> None:
        self.rest: Tokens = [*tokens]
        self.first: Tokens | None = None
        self.strip = 0
        self.is_joined = False
        self.has_fallback = False

    def apply(self, decoder: dict[str, Any] | None) -> None:
        """Applies a step or a sequence of steps; without a decoder, tokens are joined by spaces."""
        if decoder is None:
            self._each(str, lambda token: f" {token}")
            return
        kind = decoder.get("type")
        step = _STEPS.get(str(kind))
        if step is None:
            raise vocabulary_unsupported(f"the decoder {kind!r} needs more than one token")
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
        """Changes all tokens; with two functions if the first token of a text differs."""
        if rest is not None or self.first is not None:
            self.first = map_text(self.first or self.rest, first)
        self.rest = map_text(self.rest, rest or first)

    def sequence(self, decoder: dict[str, Any]) -> None:
        for step in _required(decoder, "decoders", list):
            if not isinstance(step, dict):
                raise vocabulary_invalid("a step of its decoder is not an object")
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
        pattern = _required(decoder, "pattern", dict).get("String")
        content = _required(decoder, "content", str)
        if not isinstance(pattern, str) or not pattern:
            raise vocabulary_unsupported("Replace with a regular expression")
        self._each(lambda token: token.replace(pattern, content))

    def strip_ends(self, decoder: dict[str, Any]) -> None:
        content = _required(decoder, "content", str)
        start, stop = _required(decoder, "start", int), _required(decoder, "stop", int)
        if not self.is_joined:
            self._each(lambda token: _strip(token, content, start, stop))
        elif stop or content != " " or not 0 <= start < 1 << 16:
            raise vocabulary_unsupported("Strip of anything but the leading spaces of the text")
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
        clean: Callable[[str], str] = _clean_up if decoder.get("cleanup", True) else str
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


def _required(decoder: dict[str, Any], key: str, kind: type) -> Any:
    value = decoder.get(key)
    if not isinstance(value, kind):
        raise vocabulary_invalid(
            f"{key!r} of the decoder {decoder.get('type')} is missing or not valid"
        )
    return value


def _strip(token: str, content: str, start: int, stop: int) -> str:
    for _ in range(min(start, len(token))):
        token = token.removeprefix(content)
    for _ in range(min(stop, len(token))):
        token = token.removesuffix(content)
    return token


def _clean_up(token: str) -> str:
    for old, new in _CLEANUPS:
        token = token.replace(old, new)
    return token


def _bytes(tokens: Tokens) -> list[bytes | None]:
    return [encode(token) if isinstance(token, str) else token for token in tokens]


def parse_tokenizer_json(data: dict[str, Any]) -> VocabularyData:
    """Decodes like `tokenizers.Tokenizer.decode`, token by token."""
    added = [*_added_tokens(data)]
    tokens = tokens_by_id([*_model_tokens(data), *((id, content) for id, content, _ in added)])
    special = {content for _, content, is_special in added if is_special}
    steps = data.get("decoder")
    if not isinstance(steps, dict | None):
        raise vocabulary_invalid("its `decoder` is not an object")
    decoder = TokenDecoder(tokens)
    decoder.apply(steps)
    return decoder.result([id for id, token in enumerate(tokens) if token in special])


def _model_tokens(data: dict[str, Any]) -> Iterator[tuple[int, str]]:
    model = data.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocab, dict):
        for token, id in vocab.items():
            if type(id) is not int:
                raise vocabulary_invalid(f"the id of {token!r} is {id!r}, not an integer")
            yield id, token
    elif isinstance(vocab, list):  # Unigram: pieces with their scores
        for id, pair in enumerate(vocab):
            if not isinstance(pair, list) or not pair or not isinstance(pair[0], str):
                raise vocabulary_invalid(f"piece {id} has no text")
            yield id, pair[0]
    else:
        raise vocabulary_invalid("it has no `model.vocab`")


def _added_tokens(data: dict[str, Any]) -> Iterator[tuple[int, str, bool]]:
    added = data.get("added_tokens") or []
    if not isinstance(added, list):
        raise vocabulary_invalid("its `added_tokens` is not a list")
    for entry in added:
        id, content = (
            (entry.get("id"), entry.get("content")) if isinstance(entry, dict) else (None, None)
        )
        if type(id) is not int or not isinstance(content, str):
            raise vocabulary_invalid(f"the added token {entry!r:.80} has no id or no content")
        yield id, content, entry.get("special") is True
