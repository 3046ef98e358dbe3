"""Writes small tokenizer files in every supported format."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def tokenizer_json(
    path: Path, tokens: Sequence[str], decoder: Any, added: Sequence[tuple[str, bool]] = ()
) -> Path:
    """Ids are counted through tokens and then the added ones."""
    vocab = {token: id for id, token in enumerate(tokens)}
    entries = [
        {"id": len(tokens) + number, "content": content, "special": special}
        for number, (content, special) in enumerate(added)
    ]
    data = {"model": {"vocab": vocab}, "added_tokens": entries, "decoder": decoder}
    path.write_text(json.dumps(data))
    return path


def _field(number: int, data: bytes) -> bytes:
    length, varint = len(data), b""
    while length >= 0x80:
        varint += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + varint + bytes([length]) + data


def sentencepiece(
    path: Path,
    pieces: Sequence[tuple[str, int]],
    *,
    dummy: bool = True,
    extra: bool = False,
    suffix: bool = False,
) -> Path:
    body = b"".join(
        _field(1, _field(1, piece.encode()) + bytes([3 << 3, kind])) for piece, kind in pieces
    )
    trainer = _field(2, b"\xc0\x01\x01" if suffix else b"")
    path.write_bytes(body + trainer + _field(3, bytes([3 << 3, dummy, 4 << 3, extra])))
    return path


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf(
    path: Path, model: str, tokens: Sequence[tuple[str, int]], prefix: bool | None = None
) -> Path:
    entries = [
        _text("tokenizer.ggml.model") + struct.pack("<I", 8) + _text(model),
        _text("tokenizer.ggml.tokens")
        + struct.pack("<IIQ", 9, 8, len(tokens))
        + b"".join(_text(token) for token, _ in tokens),
        _text("tokenizer.ggml.token_type")
        + struct.pack("<IIQ", 9, 5, len(tokens))
        + struct.pack(f"<{len(tokens)}i", *(kind for _, kind in tokens)),
    ]
    if prefix is not None:
        entries.append(_text("tokenizer.ggml.add_space_prefix") + struct.pack("<I?", 7, prefix))
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))
    return path


def tekken(
    path: Path,
    tokens: Sequence[bytes],
    specials: int,
    version: str | None = None,
    names: Sequence[dict[str, Any]] | None = None,
) -> Path:
    """`names` are its `special_tokens`; files of old versions have none."""
    config: dict[str, Any] = {
        "default_vocab_size": specials + len(tokens),
        "default_num_special_tokens": specials,
    }
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode()}
        for rank, token in enumerate([*tokens, b"beyond"])
    ]
    if version is not None:
        config["version"] = version
    whole: dict[str, Any] = {"config": config, "vocab": vocab}
    if names is not None:
        whole["special_tokens"] = names
    path.write_text(json.dumps(whole))
    return path


def tiktoken(path: Path, tokens: Sequence[bytes]) -> Path:
    lines = [base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens)]
    path.write_bytes(b"".join(lines))
    return path
