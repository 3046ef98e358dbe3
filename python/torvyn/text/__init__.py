"""Token ids to text, text to sentences: machines that are fed pieces of any size.

    Vocabulary        what each token id is in bytes, from a tokenizer's file
    TextStreamer      token ids or bytes -> text
    Utf8Decoder       bytes -> text
    SentenceSplitter  text -> sentences
    StopStrings       text up to the first stop string

All answer the same however the input was cut. Importing this room does not need the native module;
the first use of a name does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torvyn._native import SentenceSplitter, StopStrings, TextStreamer, Utf8Decoder
    from torvyn.text.vocabulary import Vocabulary

__all__ = ["SentenceSplitter", "StopStrings", "TextStreamer", "Utf8Decoder", "Vocabulary"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'torvyn.text' has no attribute {name!r}")
    if name == "Vocabulary":
        from torvyn.text.vocabulary import Vocabulary

        return Vocabulary
    from torvyn import _native

    return getattr(_native, name)
