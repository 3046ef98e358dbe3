"""Reads Hugging Face's `tokenizer.json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torvyn.text.decoders import TokenDecoder
from torvyn.text.failures import vocabulary_invalid
from torvyn.text.token_bytes import VocabularyData, tokens_by_id


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
