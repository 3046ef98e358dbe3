"""The errors of this room, made from the fields that native code and readers of files give.

Every function answers with an exception; whoever calls it raises it.
"""

from __future__ import annotations

from pathlib import Path

from torvyn.errors import Location, MissingError, TextError


def token_unknown(id: int, size: int) -> TextError:
    return TextError(
        "text.token-unknown",
        f"token id {id} is not in the vocabulary of {size} ids",
        hint='the ids are of another tokenizer; `unknown="skip"` or `"replace"` goes on without it',
    )


def no_vocabulary() -> TextError:
    return TextError(
        "text.no-vocabulary",
        "a token id was given to a streamer that was made without a vocabulary",
        hint="`TextStreamer(Vocabulary.load(path))` takes ids, `TextStreamer()` only bytes",
    )


def bytes_invalid(data: bytes) -> TextError:
    return TextError(
        "text.bytes-invalid",
        f"the bytes {data.hex(' ')} are no character of UTF-8",
        hint='`bad_bytes="replace"` shows U+FFFD in their place',
    )


def tail_unfinished(data: bytes) -> TextError:
    return TextError(
        "text.tail-unfinished",
        f"the text ends within a character: the bytes {data.hex(' ')} are only its beginning",
        hint='`tail="replace"` shows U+FFFD in its place, `tail="drop"` nothing',
    )


def vocabulary_missing(path: Path) -> MissingError:
    return MissingError(
        "text.vocabulary-missing",
        f"there is no tokenizer at {str(path)!r}",
        location=Location(str(path)),
        hint="a tokenizer.json, tekken.json, .model, .gguf or .tiktoken file, or a folder with one",
    )


def vocabulary_unreadable(path: Path, reason: str) -> MissingError:
    return MissingError(
        "text.vocabulary-unreadable",
        f"the tokenizer's file cannot be read: {reason}",
        location=Location(str(path)),
    )


def vocabulary_invalid(reason: str) -> TextError:
    return TextError("text.vocabulary-invalid", f"this is no tokenizer: {reason}")


def vocabulary_too_large(reason: str) -> TextError:
    return TextError("text.vocabulary-too-large", f"the tokenizer is too large: {reason}")


def vocabulary_unsupported(reason: str) -> TextError:
    return TextError(
        "text.vocabulary-unsupported",
        f"this tokenizer's rules cannot be followed token by token: {reason}",
        hint="`Vocabulary(tokens)` takes a list of bytes, one entry an id",
    )
