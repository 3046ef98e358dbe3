"""Token ids to text, text to sentences. The output does not depend on how the input is split.

    Vocabulary        token ids to bytes, from a tokenizer's file
    TextStreamer      token ids or bytes to text
    Utf8Decoder       bytes to text
    SentenceSplitter  text to sentences
    StopStrings       text up to the first stop string

_vocabulary       `Vocabulary`
_tokenizer_json   reads Hugging Face's `tokenizer.json`
_tokenizer_files  reads SentencePiece `.model`, GGUF, `.tiktoken` and `tekken.json`
_token_bytes      how tokenizers write bytes
_errors           typed errors

Importing this package does not load the native module; the first use of a name does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torvyn._lazy import attach

if TYPE_CHECKING:
    from torvyn._native import SentenceSplitter, StopStrings, TextStreamer, Utf8Decoder
    from torvyn.text._vocabulary import Vocabulary

__all__ = ["SentenceSplitter", "StopStrings", "TextStreamer", "Utf8Decoder", "Vocabulary"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        dict.fromkeys(__all__, "torvyn._native") | {"Vocabulary": "torvyn.text._vocabulary"},
    )
