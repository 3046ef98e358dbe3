"""The reference page of gRPC: the shipped .proto file, as tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reference_python import NOTE

PROTO: Final = Path(__file__).parents[1] / "python" / "torvyn" / "v1" / "inference.proto"
HEAD: Final = """# gRPC

`torvyn/v1/inference.proto`, package `torvyn.v1`; `torvyn schema --grpc` prints it.
[The guide](../guides/grpc.md) shows how to use it; [the protocol](protocol.md) explains the frames.
"""
_COMMENT: Final = re.compile(r"\s*// ?(.*)")
_OPENS: Final = re.compile(r"(\s*)(service|message|enum|oneof) (\w+) \{(\})?")
_RPC: Final = re.compile(r"\s*rpc (\w+)\((.+?)\) returns \((.+?)\);")
_FIELD: Final = re.compile(r"\s*((?:optional |repeated )?\w[\w.<>, ]*?) (\w+) = (\d+);")
_NUMBER: Final = re.compile(r"\s*(\w+) = (\d+);")


def grpc_page() -> str:
    text = PROTO.read_text()
    return NOTE + HEAD + "\n".join(_lines(text[text.index("package ") :].splitlines()))


def _lines(lines: list[str]) -> Iterator[str]:
    comments: list[str] = []
    for line in lines:
        if found := _COMMENT.fullmatch(line):
            comments.append(found[1])
            continue
        text = _joined(comments)
        if found := _OPENS.fullmatch(line):
            yield from _section(found, text)
        elif found := _RPC.fullmatch(line):
            yield f"| `{found[1]}` | `{found[2]}` | `{found[3]}` | {text} |"
        elif found := _FIELD.fullmatch(line):
            yield f"| `{found[2]}` | {found[3]} | `{found[1]}` | {text} |"
        elif found := _NUMBER.fullmatch(line):
            yield f"| `{found[1]}` | {found[2]} |"
        comments = []


def _joined(comments: list[str]) -> str:
    return " ".join(line for line in comments if line).replace("|", "\\|")


def _section(found: re.Match[str], text: str) -> Iterator[str]:
    _, kind, name, is_empty = found.groups()
    if kind == "oneof":
        return
    yield from ("", f"## {name}", "")
    if text:
        yield from (text, "")
    heads = {
        "service": ("| call | request | response | |", "|---|---|---|---|"),
        "enum": ("| value | number |", "|---|---|"),
        "message": ("| field | number | type | |", "|---|---|---|---|"),
    }
    if not is_empty:
        yield from heads[kind]
