"""`Vocabulary`: the bytes of each token id. Load it once per tokenizer and share it.

Detects the format of a file, calls the reader of that format, and limits how much is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from torvyn._native import TokenTable
from torvyn.errors import Location, TextError, os_reason
from torvyn.text._errors import (
    vocabulary_invalid,
    vocabulary_missing,
    vocabulary_too_large,
    vocabulary_unreadable,
)
from torvyn.text._token_bytes import MAX_TOKENS, VocabularyData

Format = Literal["tokenizer.json", "tekken", "sentencepiece", "gguf", "tiktoken"]

MAX_FILE_BYTES: Final = 128 << 20
"""The limit for files that are read completely; of a GGUF file only the metadata is read."""

_FILE_NAMES: Final = ("tokenizer.json", "tekken.json", "tokenizer.model")


class Vocabulary(TokenTable):
    """The bytes of each token id.

    `Vocabulary.load(path)` reads a tokenizer file. `Vocabulary(tokens, special)` takes the bytes of
    each id, with None for unused ids.
    """

    __slots__ = ()

    def __new__(cls, tokens: Iterable[bytes | None], special: Iterable[int] = ()) -> Self:
        """A vocabulary of these tokens; `special` are the ids of tokens that are not text."""
        return cls._of(VocabularyData([*tokens], [*special]))

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        format: Format | None = None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> Self:
        """Reads a tokenizer.json, tekken.json, SentencePiece, GGUF or tiktoken file.

        In a folder it looks for the first three. `special_tokens` is for tiktoken files, which do
        not contain them.
        """
        if format not in (None, *get_args(Format)):
            raise ValueError(f"format must be one of {', '.join(get_args(Format))}, not {format!r}")
        file = _find(Path(path))
        try:
            return cls._of(_read_vocabulary(file, format, special_tokens or {}))
        except TextError as error:
            raise error.at(Location(str(file))) from error.__cause__
        except OSError as error:
            raise vocabulary_unreadable(file, os_reason(error)) from error

    @classmethod
    def _of(cls, data: VocabularyData) -> Self:
        if len(data.tokens) > MAX_TOKENS:
            raise vocabulary_too_large(
                f"it has {len(data.tokens)} tokens, the limit is {MAX_TOKENS}"
            )
        return super().__new__(cls, **_fields(data))

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self)} ids>"


def _fields(data: VocabularyData) -> dict[str, Any]:
    return {name: getattr(data, name) for name in VocabularyData.__slots__}


def _find(path: Path) -> Path:
    names = [path / name for name in _FILE_NAMES] if path.is_dir() else [path]
    for name in names:
        if name.exists():
            return name
    raise vocabulary_missing(path)


def _read_vocabulary(
    file: Path, format: Format | None, special_tokens: Mapping[str, int]
) -> VocabularyData:
    from torvyn.text import _tokenizer_files

    with file.open("rb") as stream:
        head = stream.read(64)
    kind = format or _format(file, head)
    if special_tokens and kind != "tiktoken":
        raise ValueError(f"special_tokens is only for tiktoken files; this file is {kind}")
    if kind == "gguf":
        return _tokenizer_files.parse_gguf(file)
    data = _read(file)
    if kind == "tiktoken":
        return _tokenizer_files.parse_tiktoken(data, special_tokens)
    if kind == "sentencepiece":
        return _tokenizer_files.parse_sentencepiece(data)
    return _parse_json_vocabulary(_parse(data))


def _format(file: Path, head: bytes) -> Format:
    """The format of a file, by its first bytes; a tiktoken file by its name."""
    if head.startswith(b"GGUF"):
        return "gguf"
    if file.suffix == ".tiktoken":
        return "tiktoken"
    return "tokenizer.json" if head.lstrip().startswith(b"{") else "sentencepiece"


def _parse_json_vocabulary(data: dict[str, Any]) -> VocabularyData:
    from torvyn.text import _tokenizer_files
    from torvyn.text._tokenizer_json import parse_tokenizer_json

    return (
        _tokenizer_files.parse_tekken(data)
        if _tokenizer_files.is_tekken(data)
        else parse_tokenizer_json(data)
    )


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        data = stream.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise vocabulary_too_large(f"it has more than {MAX_FILE_BYTES >> 20} MiB")
    return data


def _parse(data: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise vocabulary_invalid(f"not valid JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise vocabulary_invalid("its JSON is not an object")
    return parsed
