"""Objects as YAML in block style, readable by people and by every YAML parser.

Only what JSON can hold. A string is quoted unless no parser takes it for anything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

_PLAIN: Final = re.compile(r"[A-Za-z_./$(][\w./$()@%+=-]*(?:[:,][\w./$()@%+=-]+)*", re.ASCII)
_OTHER_TYPES: Final = re.compile(r"true|false|yes|no|on|off|null|y|n|\.inf|\.nan", re.IGNORECASE)
_DIGITS: Final = re.compile(r"[.\d_:+-]*(?:e[+-]?\d+)?", re.IGNORECASE)
_STEP: Final = "  "


def render_documents(documents: Iterable[Mapping[str, Any]]) -> str:
    """One file with several documents."""
    return "---\n".join("\n".join(_block(document)) + "\n" for document in documents)


def _block(value: Any) -> Iterator[str]:
    """The lines of a value that is not on the line of its key."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{_scalar(str(key))}:", item)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for item in value:
            yield from _item(item)
    else:
        yield _scalar(value)


def _entry(head: str, item: Any) -> Iterator[str]:
    if isinstance(item, str) and "\n" in item and _is_block_text(item):
        yield f"{head} |"
        yield from (f"{_STEP}{line}" if line else "" for line in item.splitlines())
    elif _is_nested(item):
        yield head
        yield from (_STEP + line for line in _block(item))
    else:
        yield f"{head} {_scalar(item)}"


def _item(item: Any) -> Iterator[str]:
    first, *rest = _block(item)
    yield f"- {first}"
    yield from (_STEP + line if line else "" for line in rest)


def _is_nested(value: Any) -> bool:
    return bool(value) and isinstance(value, Mapping | Sequence) and not isinstance(value, str)


def _is_block_text(text: str) -> bool:
    """Whether a block shows the text exactly: plain lines, and one line break at the end."""
    lines = text.removesuffix("\n").split("\n")
    return (
        text.endswith("\n")
        and all(line.isprintable() and line == line.rstrip() for line in lines)
        and bool(lines[0])
        and bool(lines[-1])
        and not lines[0].startswith(" ")
    )


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _is_plain(value):
        return value
    text = json.dumps(value, ensure_ascii=False)
    # What JSON leaves as it is, a YAML parser may refuse.
    return "".join(each if " " <= each <= "~" else f"\\U{ord(each):08x}" for each in text)


def _is_plain(text: str) -> bool:
    is_word = _PLAIN.fullmatch(text) and not _OTHER_TYPES.fullmatch(text)
    return bool(is_word) and not _DIGITS.fullmatch(text)
