"""Token bytes to text, text to sentences, text up to a stop, thin over native.

`Utf8Decoder`, `SentenceSplitter` and `StopStrings` are fed pieces of any size and answer the same
however the input was cut. Importing this room does not need the native module; the first use of a
name does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torvyn._native import SentenceSplitter, StopStrings, Utf8Decoder

__all__ = ["SentenceSplitter", "StopStrings", "Utf8Decoder"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from torvyn import _native

        return getattr(_native, name)
    raise AttributeError(f"module 'torvyn.text' has no attribute {name!r}")
