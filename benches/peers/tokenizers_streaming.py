"""Ids to text with `tokenizers`: its `DecodeStream`, and the window that others decode with it.

`window` is the usual pattern of serving engines: each token, the text of the last few ids is
decoded without and with the new one, and the difference leaves unless it ends in U+FFFD.
"""

# The peer may be missing or untyped; mypy must give the same result in both cases.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call"
# mypy: no-warn-unused-ignores

from __future__ import annotations

from typing import Any


def decode_stream(tokenizer: Any, ids: list[int]) -> str:
    from tokenizers.decoders import DecodeStream

    stream = DecodeStream(skip_special_tokens=True)
    step = stream.step
    return "".join([piece for id in ids if (piece := step(tokenizer, id)) is not None])


def window(tokenizer: Any, ids: list[int]) -> str:
    decode = tokenizer.decode
    pieces, start, shown = [], 0, 0
    for end in range(1, len(ids) + 1):
        before = decode(ids[start:shown])
        after = decode(ids[start:end])
        if len(after) > len(before) and not after.endswith("\ufffd"):
            pieces.append(after[len(before) :])
            start, shown = shown, end
    return "".join(pieces)
