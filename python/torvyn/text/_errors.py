"""The errors of this package. Every function returns an exception; the caller raises it."""

from __future__ import annotations

from pathlib import Path

from torvyn.errors import Location, MissingError, TextError


def token_unknown(id: int, size: int) -> TextError:
    return TextError(
        "text.token-unknown",
        f"token id {id} is not in the vocabulary of {size} ids",
        hint='use the tokenizer of the model, or set `unknown` to "skip" or "replace"',
    )


def no_vocabulary() -> TextError:
    return TextError(
        "text.no-vocabulary",
        "this streamer has no vocabulary and cannot decode token ids",
        hint="use `TextStreamer(Vocabulary.load(path))`; `TextStreamer()` takes only bytes",
    )


def bytes_invalid(data: bytes) -> TextError:
    return TextError(
        "text.bytes-invalid",
        f"the bytes {data.hex(' ')} are not valid UTF-8",
        hint='`bad_bytes="replace"` replaces them with U+FFFD',
    )


def tail_unfinished(data: bytes) -> TextError:
    return TextError(
        "text.tail-unfinished",
        f"the text ends with an incomplete character: the bytes {data.hex(' ')}",
        hint='`tail="replace"` replaces it with U+FFFD, `tail="drop"` removes it',
    )


def vocabulary_missing(path: Path) -> MissingError:
    return MissingError(
        "text.vocabulary-missing",
        f"no tokenizer found at {str(path)!r}",
        location=Location(str(path)),
        hint="pass a tokenizer.json, tekken.json, .model, .gguf or .tiktoken file, or its folder",
    )


def vocabulary_unreadable(path: Path, reason: str) -> MissingError:
    return MissingError(
        "text.vocabulary-unreadable",
        f"cannot read the tokenizer file: {reason}",
        location=Location(str(path)),
    )


def vocabulary_invalid(reason: str) -> TextError:
    return TextError("text.vocabulary-invalid", f"not a valid tokenizer: {reason}")


def vocabulary_too_large(reason: str) -> TextError:
    return TextError("text.vocabulary-too-large", f"the tokenizer is too large: {reason}")


def vocabulary_unsupported(reason: str) -> TextError:
    return TextError(
        "text.vocabulary-unsupported",
        f"this tokenizer cannot be decoded token by token: {reason}",
        hint="`Vocabulary(tokens)` takes a list of bytes, one entry per id",
    )
